"""An engine on a Dask cluster: an existing one (`--scheduler`), or processes of this machine (`--workers`).

client      connects, compares versions, and starts local workers
engine      submits items as tasks, a window of them at a time, and returns results in item order
interrupts  is loaded by local workers
parcels     pickles work and items; what is large travels once, not with each task
tasks       what runs on a worker
versions    what must be alike on every worker
"""
