"""What verbs read and write: options as they are typed, data, JSON, and files that are written whole."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ltrbench.errors import ConfigError
from ltrbench.tables import paragraph
from ltrbench.untrusted.escaping import visible

if TYPE_CHECKING:
    from ltrbench.data import RankingDataset

PATH = click.Path(path_type=Path)
JSON_OPTION = click.option(
    "--json", "as_object", is_flag=True, help="One JSON object on standard output instead of the table."
)
READ_OPTION = click.option(
    "--read",
    "reading",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of DATA's reader: sort_queries=true, first_index=0, absent=nan, feature_names=FILE, ...; "
    "may be repeated.",
)


def _load_plugins(context: click.Context, parameter: click.Parameter, modules: tuple[str, ...]) -> None:
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
    help="A module with metrics of your own, in the current folder or installed; may be repeated.",
)
"""Loads plug-ins before anything of the verb runs, so that it needs no argument for them."""


def read(
    data: Path | Sequence[Path], reading: Sequence[str], num_features: int | None = None, **also: Any
) -> RankingDataset:
    """The data that a verb was given.

    Args:
        reading: the reader's options as `--read` gives them.
        also: options of the verb's own; what was typed goes before them.
    """
    from ltrbench.data.formats.reading import read_data

    return read_data(data, **{"num_features": num_features, **also, **typed_options(reading)})


def typed_options(reading: Sequence[str]) -> dict[str, Any]:
    """The reader's options as `--read` gives them.

    >>> typed_options(["first_index=0", "label=grade"])
    {'first_index': 0, 'label': 'grade'}
    """
    return {key: parse_value(text) for key, text in split_settings("--read", reading).items()}


def split_settings(option: str, settings: Sequence[str]) -> dict[str, str]:
    """`["gain=linear", "ties=worst"]` -> {"gain": "linear", "ties": "worst"}.

    Raises:
        ConfigError: where one is not key=value, or a key is given twice.
    """
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not (key and equals):
            raise ConfigError(f"{option} {setting}: key=value was expected, as in {option} key=value.")
        if key in values:
            raise ConfigError(f"{option} {key} is given twice, as '{values[key]}' and '{value}'; keep one.")
        values[key] = value
    return values


def parse_value(text: str) -> Any:
    """A value as overrides of a run are written: true, 3, 0.5, nan, null, a list [a,b], and all else text.

    >>> [parse_value(text) for text in ("True", "3", "[a,b]", "grade", '"7"')]
    [True, 3, ['a', 'b'], 'grade', '7']
    """
    if text.startswith("[") and text.endswith("]"):
        return [item.strip() for item in text[1:-1].split(",")]
    if text.lower() in ("true", "false", "nan"):
        return {"true": True, "false": False, "nan": math.nan}[text.lower()]
    try:
        return json.loads(text)
    except ValueError:
        return text


@contextlib.contextmanager
def opened(output: Path | None, option: str = "--output") -> Iterator[TextIO]:
    """The file to write to, or standard output. A reader of the file never sees half of it."""
    if output is None:
        yield sys.stdout
        return
    with replaced(output, option) as partial, partial.open("w", newline="") as file:
        yield file


@contextlib.contextmanager
def replaced(output: Path, option: str = "--output") -> Iterator[Path]:
    """A path to write to, which takes the place of `output` when all is written."""
    partial = output.with_name(f".{output.name}.partial")
    try:
        yield partial
        partial.replace(output)
    except OSError as error:
        raise ConfigError(f"{option} {output} cannot be written: {error.strerror}.") from None
    finally:
        partial.unlink(missing_ok=True)


def terminal_width() -> int | None:
    """The columns of the terminal that standard output is; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def echo_json(record: dict[str, Any]) -> None:
    """Prints one JSON object; NaN, which JSON does not have, must be null in it already."""
    click.echo(json.dumps(record, indent=2, allow_nan=False))


def echo(text: str, err: bool = False) -> None:
    """Prints text for people, the control characters of names in it as escapes."""
    click.echo(visible(text, lines=True), err=err)


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of at most 100 columns, later ones indented."""
    return paragraph(text, 100, indent)
