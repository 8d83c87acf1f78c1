"""Moments, decompositions and kernels: functions of arrays."""
