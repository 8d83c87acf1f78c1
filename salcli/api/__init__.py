"""The Python face: arrays and frames in, the same moments and methods as the command line.

`salcli` imports from here when a name is used, so that the command line starts without scikit-learn.
"""
