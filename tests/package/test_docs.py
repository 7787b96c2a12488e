"""The commands, keys, choices, flags and paths of the documentation exist, and its site can be built.

These tests check what is written by hand. The Python of a page runs as doctests, after the commands that the
page marks; `make pages` writes generated text, and a test keeps it current. `make docs` does all three.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from composed_jobs import composer
from forked import run_forked
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from docs.isolation import modules_of
from docs.macros import refill
from docs.macros.yamls import config_files
from docs.pages import FILLED, ROOT, pages, titled_files, write_files
from docs.transcript import (
    comparable,
    data_folder,
    environment_of_transcripts,
    plain,
    printed,
    retaken,
    transcripts,
)
from ltrbench.cli.hydra_private import arguments_parser
from ltrbench.cli.launch import flags_and_overrides, with_all_jobs
from ltrbench.cli.verbs import MODULE_OF, verbs
from ltrbench.config import build_experiment, build_tracker, resolved
from ltrbench.errors import DebiasingError
from ltrbench.folders import conf_dir
from ltrbench.metrics.functions import ALIASES, METRICS, OF_COLUMNS
from ltrbench.runs.spec import RunSpec
from ltrbench.shipping.target import target_names

pytestmark = pytest.mark.slow

DOCS = ROOT / "docs"
PAGES = [*pages(), ROOT / "CONTRIBUTING.md"]

MAKE_TARGETS = re.findall(
    r"^([a-z-]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE
)

_SHELL = re.compile(r"^```sh[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(params=PAGES, ids=lambda path: path.name)
def page(request: pytest.FixtureRequest) -> str:
    return str(request.param.read_text())


@pytest.fixture
def files(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Changes to a folder with the files of the page's example."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    write_files(titled_files(page), tmp_path)
    with modules_of(tmp_path):
        yield


def commands(page: str) -> list[list[str]]:
    """Returns the words after `python -m ltrbench` in each line of the shell blocks, up to | > or &.

    Filled text has commands of conf/, which other tests compose.
    """
    lines = [
        line
        for block in _SHELL.findall(FILLED.sub("", page))
        for line in block.replace("\\\n", " ").splitlines()
    ]
    words = (
        shlex.split(line, comments=True)
        for line in lines
        if line.startswith("python -m ltrbench")
    )
    return [
        list(itertools.takewhile(lambda word: word not in ("|", ">", "&"), each[3:]))
        for each in words
    ]


def is_verb(words: list[str]) -> bool:
    return bool(words) and words[0] in MODULE_OF


@pytest.mark.usefixtures("files")
def test_every_verb_takes_its_arguments_and_every_run_can_be_composed(
    page: str,
) -> None:
    for words in commands(page):
        if is_verb(words):
            context, rest = click.Context(verbs), list(words)
            while isinstance(context.command, click.Group):
                name, command, rest = context.command.resolve_command(context, rest)
                assert command is not None
                context = command.make_context(name, list(rest), parent=context)
        else:
            check_run(words)


@pytest.mark.parametrize(
    "path", sorted(conf_dir().glob("experiment/*.yaml")), ids=lambda path: path.stem
)
def test_every_command_in_the_header_of_an_experiment_can_be_composed(
    path: Path,
) -> None:
    text = path.read_text().replace("\\\n#", "")
    lines = re.findall(r"^#   (.*)|^#.*:  (python -m ltrbench .*)", text, re.MULTILINE)
    assert lines
    for words in (shlex.split("".join(line)) for line in lines):
        # A line without `python` continues the first command with other settings.
        words = (
            words[3:] if words[0] == "python" else [f"experiment={path.stem}", *words]
        )
        if not is_verb(words):
            check_run([*words, *["replicates.index=1"] * ("\nreplicates:" in text)])


def check_run(words: list[str]) -> None:
    """Composes and builds each job of a run or sweep, without running it."""
    flags, overrides = flags_and_overrides(words)
    given = arguments_parser().parse_intermixed_args([*flags, *overrides])
    search_path = ""
    if given.config_dir:
        search_path = f"file://{Path(given.config_dir).resolve()}"
    numbers = dict(
        word.split("=", 1)
        for word in given.overrides
        if word.startswith("replicates.number=")
    )
    number = int(numbers.get("replicates.number", 0)) if given.multirun else None
    stub = OmegaConf.create(
        {"data": {}, "replicates": {"number": number, "index": None}}
    )
    words_of_jobs = with_all_jobs(given.overrides, stub)
    of_study = sweep_of_study(words_of_jobs)
    if of_study:
        first = next(jobs(with_all_jobs([*words_of_jobs, *of_study], stub)))
        config, _ = composer(search_path).composed(first)
        words_of_jobs += with_all_jobs(of_study, config)
    for overrides in jobs(words_of_jobs):
        config, choices = composer(search_path).composed(overrides)
        spec = RunSpec(settings=resolved(config), choices=choices, overrides=overrides)
        # A sweep leaves out the corrections that a backend does not have.
        with contextlib.suppress(DebiasingError):
            build_experiment(spec)
        build_tracker(config)


def sweep_of_study(overrides: list[str]) -> list[str]:
    """Returns the overrides that the YAML of a chosen experiment sweeps over, without those given."""
    given = dict(word.split("=", 1) for word in overrides if "=" in word)
    if "experiment" not in given:
        return []
    study = OmegaConf.load(conf_dir() / f"experiment/{given['experiment']}.yaml")
    swept = OmegaConf.select(study, "hydra.sweeper.params") or {}
    return [f"{key}={value}" for key, value in swept.items() if key not in given]


def jobs(overrides: list[str]) -> Iterator[list[str]]:
    """Yields overrides that cover every value of every swept key, in as few jobs as possible."""
    parsed = OverridesParser.create().parse_overrides(overrides)
    choices = [
        [f"{item.get_key_element()}={value}" for value in item.sweep_string_iterator()]
        if item.is_sweep_override()
        else [item.input_line or ""]
        for item in parsed
    ]
    for number in range(max((len(values) for values in choices), default=1)):
        yield [values[number % len(values)] for values in choices]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built documentation. The build is strict: a warning fails it."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            str(folder),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_the_reference_and_requests_nothing_from_other_servers(
    site: Path,
) -> None:
    reference = (site / "lookup" / "reference.html").read_text()
    assert 'id="ltrbench.data.RankingDataset.take_queries"' in reference
    for built in site.rglob("*.html"):
        text = built.read_text()
        assert not re.findall(
            r'<(?:script|img|iframe)[^>]*src="(?:https?:)?//', text
        ), built.name
        assert not re.findall(
            r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(?:https?:)?//', text
        )


IN_TERMINAL = """
import sys
sys.stdout.isatty = lambda: True
import ltrbench.__main__
"""


def printed_by_fork(command: str, folder: Path) -> str:
    """Like `printed`. A block that is one command of ltrbench does without the seconds that imports take."""
    line = command.replace("\\\n", " ").strip()
    words = shlex.split(line, comments=True)
    if "\n" in line or words[:3] != ["python", "-m", "ltrbench"]:
        return printed(command, folder)
    done = run_forked(IN_TERMINAL, words[2:], folder, environment_of_transcripts())
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return plain(done.stdout)


@pytest.mark.skipif(
    not (data_folder() / "lightgbm-example" / "rank.train").exists(),
    reason="the tutorial's data is missing: data=lightgbm_example prints how to get it",
)
def test_the_tutorial_shows_what_its_commands_print() -> None:
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    now = transcripts(retaken(page, printed_by_fork))
    for (command, shown), (_, output) in zip(transcripts(page), now, strict=True):
        (text_shown, numbers_shown), (text, numbers) = (
            comparable(shown),
            comparable(output),
        )
        assert text_shown == text, f"{command}differs: make screenshot writes it anew"
        # Another type of machine may round otherwise.
        assert numbers_shown == pytest.approx(numbers, abs=0.001), command


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_the_filled_text_of_a_page_is_current(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert refill(text) == text, f"{path.name} is outdated: make pages writes it anew"


def test_every_setting_verb_target_and_metric_is_named_in_a_page() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages())
    names = [f"`{key.name}`" for file in config_files() for key in file.keys]
    names += [f"ltrbench {verb}" for verb in MODULE_OF]
    names += [f"`{target}`" for target in target_names()]
    metrics = {*METRICS, *OF_COLUMNS, *ALIASES}
    names += [f"`{metric}" for metric in metrics]
    names += [f"`make {name}`" for name in MAKE_TARGETS]
    assert not [name for name in names if name not in text]
