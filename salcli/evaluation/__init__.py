"""Numbers about arrays: what attackers read, what was kept."""
