"""Runs: what is no verb goes to Hydra.

`launch.py` starts it, `sweep.py` checks all jobs of a sweep before the first one trains, composed by
`composing.py` and held to the known keys by `keys.py`; `continuing.py` numbers them beside earlier ones;
`progress.py` shows how far a job is, and `messages.py` explains what Hydra refuses.
"""
