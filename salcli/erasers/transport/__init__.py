"""`transport`: class-conditional Gaussian optimal transport, against nonlinear readers.

`eraser` is the map, `method` fits it, `choice` chooses how far covariances are shrunk, by the `readers`.
"""
