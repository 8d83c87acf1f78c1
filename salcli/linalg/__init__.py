"""The paper: moments, their singular directions, and erasers. Arrays in, arrays out."""
