"""The only layer that talks: options in, results on stdout, everything else on stderr."""
