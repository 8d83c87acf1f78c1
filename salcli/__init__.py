"""salcli: remove a guarded attribute from a file of embeddings, and measure what is left."""

__version__ = "0.2.0.dev0"
