"""Work functions that executors run in other processes, which import them from this module."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from ltrbench.data.synthetic import make_synthetic
