"""How work is spread over threads."""
