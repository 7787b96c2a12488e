"""Runs and sweeps: every command line that does not begin with a verb.

launch       composes and starts a run or a sweep
sweep        the sweeper, which checks all jobs of a sweep before the first one trains
composing    composes the configurations of a sweep's jobs
keys         rejects keys that nothing reads
messages     turns Hydra's errors into messages with a remedy
"""
