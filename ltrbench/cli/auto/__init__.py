"""The verb `auto` and `ltrbench.auto`: from a table to a shipped model within a given time.

It is a plan of steps over the other commands. Each step is the words of a command line, which run in this
process and are listed in `commands.sh`; what they print is in `auto.log`. Nothing else trains, compares or
ships.

    order       what the user asks for; what has been done, so that the same command goes on; the time spent
    budget      the times that the fits so far predict, and what is left out for them
    steps       the steps
    answer      the page about the outcome
    command     the options of the command line, and the function for Python
"""
