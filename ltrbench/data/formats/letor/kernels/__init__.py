"""Compiled loops over the bytes of LETOR text.

counting    first pass: counts of documents, values and ids
parsing     second pass: parser of lines
numbers     numbers of a line
text        blanks, words, ends and document ids

Callers import these modules late, because `--help` should not wait for numba.
"""
