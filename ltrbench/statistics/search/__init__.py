"""Statistics of a search for settings.

winner          each setting minus the one with the highest mean, with simultaneous intervals
expected_best   expected best value by number of trials
"""
