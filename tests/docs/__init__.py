"""The documentation is executed: what it shows is what the commands print."""
