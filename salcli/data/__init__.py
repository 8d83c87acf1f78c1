"""Records of arrays, validated when they are created, then read-only."""
