"""What all commands share: the name of the program, error messages, exit codes, options and files."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ltrbench.errors import ConfigError, LtrbenchError, error_text
from ltrbench.tables import paragraph
from ltrbench.untrusted import visible

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset

PROGRAM = "python -m ltrbench"
"""The call that works in every installation."""


# ---- Error output of the command line: one paragraph on standard error, and an exit code that separates
# user errors from failed runs.

OK = 0
RUN_FAILED = 1
USER_MISTAKE = 2
PAST_THRESHOLD = 3
OUT_OF_TIME = 124  # as the command `timeout`
RUN_INTERRUPTED = 130


def as_paragraph(error: BaseException) -> str:
    """Returns the printed text: the message of a user error, or the type and message of a failure."""
    message = (
        f"error: {error.format_message()}"
        if isinstance(error, click.ClickException)
        else error_text(error)
    )
    return visible(message, lines=True)


class VisibleFormatter(logging.Formatter):
    """Formats log messages with control characters escaped; names in a message may contain them."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), lines=True)


def exit_code(error: BaseException) -> int:
    """Returns 2 for an error that the user can fix, 1 for a failed run."""
    if isinstance(error, LtrbenchError | click.UsageError):
        return USER_MISTAKE
    return RUN_FAILED


# ---- Input and output that verbs share: options, data, JSON, and files that are replaced in one step.

PATH = click.Path(path_type=Path)
JSON_OPTION = click.option(
    "--json",
    "as_object",
    is_flag=True,
    help="Print one JSON object instead of the table.",
)
READ_OPTION = click.option(
    "--read",
    "reading",
    metavar="KEY=VALUE",
    multiple=True,
    help="Option for reading DATA: sort_queries=true, first_index=0, absent=nan, feature_names=FILE, ...; "
    "may be repeated.",
)


def _load_plugins(
    context: click.Context, parameter: click.Parameter, modules: tuple[str, ...]
) -> None:
    del context, parameter
    from ltrbench.metrics import load_plugins

    load_plugins(modules, "--plugin")


PLUGIN_OPTION = click.option(
    "--plugin",
    metavar="MODULE",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_load_plugins,
    help="Module with your own metrics, in the current folder or installed; may be repeated.",
)
"""Loads plug-ins before the verb runs, so that the verb needs no argument for them."""


def read(
    data: Path | Sequence[Path],
    reading: Sequence[str],
    num_features: int | None = None,
    **also: Any,
) -> RankingDataset:
    """Reads the DATA argument of a verb.

    Args:
        reading: the values of `--read`, each KEY=VALUE.
        also: options that the verb sets; `--read` overrides them.
    """
    from ltrbench.data.sources import read_data

    return read_data(
        data, **{"num_features": num_features, **also, **typed_options(reading)}
    )


def typed_options(reading: Sequence[str]) -> dict[str, Any]:
    """Returns the options of the reader, parsed from the values of `--read`.

    >>> typed_options(["first_index=0", "label=grade"])
    {'first_index': 0, 'label': 'grade'}
    """
    return {
        key: parse_value(text)
        for key, text in split_settings("--read", reading).items()
    }


def split_settings(option: str, settings: Sequence[str]) -> dict[str, str]:
    """Parses `["gain=linear", "ties=worst"]` into {"gain": "linear", "ties": "worst"}.

    Raises:
        ConfigError: A setting is not key=value, or a key is given twice.
    """
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise ConfigError(
                f"{option} {setting}: expected key=value, as in {option} key=value."
            )
        if key in values:
            raise ConfigError(
                f"{option} {key} is given twice, as '{values[key]}' and as '{value}'; keep one of them."
            )
        values[key] = value
    return values


def parse_value(text: str) -> Any:
    """Parses a value in the syntax of overrides: true, 3, 0.5, nan, null, a list of texts, a mapping, text.

    >>> [parse_value(text) for text in ("True", "3", "[a,b]", '["a, b", c]', "[]", "grade", '"7"')]
    [True, 3, ['a', 'b'], ['a, b', 'c'], [], 'grade', '7']
    >>> parse_value("['-1.0', 'c, d', don't]")
    ['-1.0', 'c, d', "don't"]
    >>> parse_value("{day: 2026-01-01}"), parse_value('{"day": "2026-01-01"}')
    ({'day': '2026-01-01'}, {'day': '2026-01-01'})
    """
    if text.startswith("[") and text.endswith("]"):
        return _texts_of_list(text)
    if text.lower() in ("true", "false", "nan"):
        return {"true": True, "false": False, "nan": math.nan}[text.lower()]
    with contextlib.suppress(ValueError):
        return json.loads(text)
    if text.startswith("{") and text.endswith("}"):
        return _mapping(text)
    return text


def _mapping(text: str) -> Any:
    """Returns the mapping in the syntax of overrides; the text if it is none."""
    # Takes a tenth of a second, too long for --help.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(f"key={text}")
    except HydraException:
        return text
    return override.value()


_ITEM = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^,]*?))\s*,""")
"""An item of a list with a comma after it: in quotes, or without."""


def _texts_of_list(text: str) -> list[str]:
    """Returns the texts of a list in JSON, or as in an override: quotes of either kind are optional."""
    with contextlib.suppress(ValueError):
        items = json.loads(text)
        if all(isinstance(item, str) for item in items):
            return [*items]
    items = text[1:-1].strip()
    if not items:
        return []
    return ["".join(parts) for parts in _ITEM.findall(f"{items},")]


def refuse_ineffective(*options: str, without: str = "", beside: str = "") -> None:
    """Raises ConfigError if the present command has one of these options, which have no effect in it.

    Args:
        without: Option that they need, and the command lacks, such as "--fuse METHODS".
        beside: Instead, option of the command that replaces what they are about.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        named = [option for option in parameter.opts if option in options]
        source = context.get_parameter_source(parameter.name or "")
        if not named or source is not ParameterSource.COMMANDLINE:
            continue
        if without:
            text = f"has no effect without {without}. Add {without}"
        else:
            text = f"has no effect beside {beside}. Leave out {beside}"
        raise ConfigError(f"{named[0]} {text}, or leave out {named[0]}.")


def options_as_words(options: Mapping[str, object]) -> list[str]:
    """Returns the words of a command line with the options that have a value; a list repeats its option.

    >>> options_as_words({"--model": "native", "--metric": None, "--data": ["a.txt", "b.txt"]})
    ['--model', 'native', '--data', 'a.txt', '--data', 'b.txt']
    """
    words = []
    for option, given in options.items():
        values = given if isinstance(given, list | tuple) else [given]
        for value in values:
            if value is not None:
                words += [option, str(value)]
    return words


def check_output(option: str, output: Path | None, inputs: Sequence[Path]) -> None:
    """Raises ConfigError if an output would replace an input of the verb or a file of a run.

    Args:
        option: option that names the output, for the message.
        output: None: standard output.
    """
    from ltrbench.runs.record import RESULT_FILE

    if output is None or not output.exists():
        return
    for path in inputs:
        if path.exists() and output.samefile(path):
            raise ConfigError(
                f"{option} {output} is the file {path} that is read. Choose another file."
            )
    for folder in output.resolve().parents:
        if (folder / RESULT_FILE).is_file():
            raise ConfigError(
                f"{option} {output} would replace a file of the run in {folder}. Choose another file."
            )


def write_output(text: str, output: Path | None) -> None:
    """Writes a file, compressed by its extension, which appears only when it is complete; None: prints."""
    if output is None:
        click.echo(text, nl=False)
        return
    from ltrbench.data.blocks import write_whole

    with write_whole(output) as stream:
        stream.write(text.encode(errors="backslashreplace"))


def terminal_width() -> int | None:
    """Returns the width of the terminal in columns; None when standard output is a file or a pipe."""
    # Standard output is None if it was closed.
    if sys.stdout is not None and sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return None


def width_of_text() -> int:
    """Returns the width of the terminal in columns; 100 when standard output is a file or a pipe."""
    return terminal_width() or 100


def echo_json(record: dict[str, Any]) -> None:
    """Prints one JSON object. NaN is not valid JSON: the caller must have replaced it by null."""
    click.echo(json.dumps(record, indent=2, allow_nan=False))


def echo(text: str, err: bool = False) -> None:
    """Prints text with control characters escaped."""
    click.echo(visible(text, lines=True), err=err)


def wrapped(text: str, indent: str = "") -> str:
    """Wraps a paragraph to 100 columns; `indent` begins every line but the first."""
    return paragraph(text, 100, indent)


def facts_as_lines(facts: Iterable[tuple[str, str]]) -> str:
    """Returns one wrapped paragraph for each (name, value), with the values aligned."""
    facts = list(facts)
    width = max(len(name) for name, _ in facts) + 2
    return "\n".join(
        wrapped(f"{name:{width}}{value}", " " * width) for name, value in facts
    )


# ---- Progress of a fit on standard error: one line that is redrawn in a terminal, plain lines elsewhere.

if TYPE_CHECKING:
    from ltrbench.experiment.loading import OnProgress, Progress

SECONDS_BETWEEN_DRAWINGS = 0.3


@contextlib.contextmanager
def showing(kind: str, model: str) -> Iterator[OnProgress | None]:
    """Yields the callback for `run` according to the setting `progress`; always ends the drawn line."""
    if kind == "auto" and sys.stderr.isatty():
        with contextlib.closing(DrawnLine(model)) as line:
            yield line
    else:
        from ltrbench.experiment.loading import Lines

        yield None if kind == "none" else Lines(model)


class DrawnLine:
    """Draws one line again and again, at most every `SECONDS_BETWEEN_DRAWINGS`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._drawn = -math.inf

    def __call__(self, progress: Progress) -> None:
        from ltrbench.experiment.loading import described

        if (
            progress.finished
            or progress.seconds - self._drawn >= SECONDS_BETWEEN_DRAWINGS
        ):
            self._drawn = progress.seconds
            text = f"{self._model} {described(progress)}"
            room = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:room]}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line, if one was drawn."""
        if self._drawn > -math.inf:
            print(file=sys.stderr, flush=True)
