"""Commands of the verb `data`, one file each; a command has the name of its file.

fetch   downloads a published data set, checks it and unpacks it
build   writes a store
info    describes a store
check   verifies a store
"""
