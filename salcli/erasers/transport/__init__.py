"""`transport`: class-conditional Gaussian optimal transport, against nonlinear readers.

`eraser` is the map, and `sequence` several of them; `method` fits them, one by `fitting`; `choice` chooses how far
covariances are shrunk, by the `readers`; `scored` estimates them from rows between the classes too.
"""
