"""Measures a run, and says where it comes from.

clock        wall time: the one clock
memory       peak memory
provenance   versions, machine, commit
"""
