"""Model files of other libraries, checked before their own parsers read them: a file that was tampered with
may make those end the process. A check knows what an adapter's `save` writes, and refuses anything else."""
