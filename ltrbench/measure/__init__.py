"""Measures a run, and records its provenance.

clock        wall time: the one clock
memory       peak memory
provenance   versions, machine, commit
"""
