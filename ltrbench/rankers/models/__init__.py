"""Trained models: their trees, what their features are worth, and their files.

Model files of other libraries are checked before their own parsers read them.
"""
