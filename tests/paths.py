"""Where the checkout's folders are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
RESULTS = ROOT / "results"
USER_BACKEND = ROOT / "tests" / "user_backend"
