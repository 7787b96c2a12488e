"""Runs: what is no verb goes to Hydra.

launch       composes and starts a run or a sweep
sweep        the sweeper, which checks all jobs of a sweep before the first one trains
composing    the configurations of a sweep's jobs
keys         refuses keys that nothing reads
continuing   numbers jobs beside earlier ones, and prints how to run the remaining ones
progress     how far a fit or the check of a sweep is
messages     explains what Hydra refuses
"""
