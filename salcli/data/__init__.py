"""Records of arrays, validated when they are made, then read-only."""
