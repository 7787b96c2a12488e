"""Every verb is found, without importing the others."""

from __future__ import annotations

import subprocess
import sys


def test_a_verb_is_run_without_importing_the_others() -> None:
    code = (
        "import sys; from ltrbench.cli import main; assert main(['show', '--help']) == 0; "
        "print([name for name in sys.modules if name.startswith('ltrbench.cli.verbs.comparisons')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
