"""The only layer that prints: results on stdout, everything else on stderr."""
