"""The version of the package, for modules below the package's public names.

The distribution takes it from here. It is not read from the installed distribution, which keeps the version
of the day of its installation in a checkout that moves on.
"""

from __future__ import annotations

__version__ = "1.0.0"
