"""Measurement of a run, and its provenance.

clock        wall time: the only clock
available    memory and cores that a process can still use
memory       peak memory
neighbours   whether another job ran on the machine at the same time
provenance   versions, machine, commit
"""
