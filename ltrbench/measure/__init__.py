"""Measurement of a run, and its provenance.

clock        wall time: the only clock
available    memory that a process can still allocate
memory       peak memory
neighbours   whether another job ran on the machine at the same time
provenance   versions, machine, commit
"""
