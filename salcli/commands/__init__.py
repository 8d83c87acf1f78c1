"""The commands: paths in, a record out. START HERE."""
