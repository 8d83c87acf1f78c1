"""salcli: remove a guarded attribute from a file of embeddings, and measure what is left."""
