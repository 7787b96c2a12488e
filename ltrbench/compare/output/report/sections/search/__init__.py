"""Sections on searches for settings; none of them is shown without a search.

budgets    section "Search": budgets, best value by number of trials, values on validation and test
settings   section "Settings": importance, values against each setting, chosen settings
alike      section "Settings that cannot be told apart" from the chosen ones
"""
