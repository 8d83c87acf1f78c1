"""Methods and the erasers that they fit, one file a method."""
