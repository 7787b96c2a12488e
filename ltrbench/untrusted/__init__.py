"""Readers of untrusted files: bounded in size, without pickle, and validated against declared types.

reading      JSON of bounded size and depth, arrays without pickle
unpickling   detection of pickles in files, and a guard that makes unpickling an error
records      validation of JSON against type annotations, and of CSV against its header
escaping     escaping of untrusted names for each output format
"""
