"""Scores that no run computed under this comparison's settings.

derived        runs with other scores in the place of an existing run's
imported       scores of any system
fusion         runs ranked as one
fused_scores   the parts and weights of a fused score
"""
