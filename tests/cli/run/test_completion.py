"""Shell completion of `ltrbench`: the candidates, and the scripts of the shells in the shells themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ltrbench.cli.completion import candidates
from ltrbench.conf_folder import conf_dir

MODELS = {path.stem for path in (conf_dir() / "model").glob("[a-z]*.yaml")}


def words(line: str) -> list[str]:
    """The candidates for the last word of a command line that follows `ltrbench `."""
    *before, word = line.split(" ")
    return [candidate for candidate, _ in candidates(before, word)]


def test_a_verb_takes_its_options_and_an_option_its_choices() -> None:
    assert words("ui --po") == ["--port"]
    assert words("completion ") == ["bash", "zsh", "fish"]
    assert "model=" not in words("compare ")


def test_a_group_takes_its_names_and_after_a_comma_the_others() -> None:
    assert set(words("model=")) == {f"model={name}" for name in MODELS}
    assert words("model=lightgbm,x") == ["model=lightgbm,xgboost"]
    assert "model=lightgbm,lightgbm" not in words("-m model=lightgbm,")


def test_the_keys_of_a_model_are_those_of_the_model_that_is_chosen_before() -> None:
    assert words("model=lightgbm model.feature_fraction_b") == ["model.feature_fraction_bynode="]
    assert words("model=lightgbm,native -m model.feature_fraction_b") == ["model.feature_fraction_bynode="]
    assert words("seed=1,2 -m model=lightgbm model.feature_fraction_b") == ["model.feature_fraction_bynode="]
    assert words("model.feature_fraction_b") == []
    assert words("params.num_l") == ["params.num_leaves="]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A folder with an executable `ltrbench`, as the console script of an installation is."""
    path = tmp_path / "bin/ltrbench"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom ltrbench.cli import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path.parent


def in_shell(shell: str, code: str, script: Path) -> str:
    environment = {**os.environ, "PATH": f"{script}:{os.environ['PATH']}"}
    done = subprocess.run(
        [shell, "-c", code], env=environment, cwd=script, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        # bash replaces what is behind the last "=" only.
        ("ltrbench model=native,lightg", ["native,lightgbm"]),
        ("ltrbench ui --ho", ["--host"]),
    ],
)
def test_bash_completes_verbs_options_and_overrides(line: str, replies: list[str], script: Path) -> None:
    code = (
        'eval "$(ltrbench completion bash)"\n'
        f"COMP_LINE={line!r} COMP_POINT={len(line)} COMP_WORDBREAKS=$' \\t\\n=:'\n"
        "_ltrbench_completion ltrbench\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\"\n"
    )
    assert in_shell("bash", code, script).splitlines() == replies
