"""ltrbench: learning-to-rank backends, compared so that the comparison holds up.

The rooms, each importing only from those before it:
`data -> metrics -> native -> rankers -> results -> tracking -> experiment -> compare -> cli`.
`shapes`, `errors`, `clock`, `memory` and `provenance` are the floor that all of them stand on.

>>> import ltrbench
>>> ltrbench.__version__ == __version__
True
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("ltrbench")
except PackageNotFoundError:  # a plain checkout on the path, never installed
    __version__ = "0+checkout"
