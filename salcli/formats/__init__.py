"""The only layer that opens files: embeddings, labels, similarity sets and artifacts, in and out."""
