"""Measurement of a run, and its provenance.

clock        wall time: the only clock
memory       peak memory
provenance   versions, machine, commit
"""
