"""What a new sweep and a resumed sweep share.

session      one command: its tracker, its jobs, the comparison of its runs
continuing   messages of a sweep that continues in an existing folder, or that was interrupted
mirroring    copies runs and their comparison to a tracker
rounds       the tasks of a command: its jobs, and the trials of their searches
logs         configurations of logging
progress     progress of a fit or of the check of a sweep
"""
