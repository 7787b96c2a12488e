"""Files that anybody may have written: read within bounds, without pickle, and held against types.

reading      JSON of bounded size and depth, arrays without pickle
unpickling   finds pickles in files, and has unpickling raise
records      JSON held against annotations, CSV held against its header
escaping     names from data files and run folders as each output format shows them
"""
