"""What the documentation does not say by hand: mkdocs calls `on_page_markdown`, which fills placeholders.

A placeholder is a line `<!-- generated: NAME ARGUMENT -->`; NAME is a key of `GENERATORS`, whose function
gives the Markdown that takes its place, from conf/, from the code, or from a verb that is run. So what is
generated cannot go stale. A new placeholder is a function from its argument and the page to text, and a line
there.

A fenced block with a title is a file of the page's example: `titled_files` gives them all. The commands of a
page that are marked with `<!-- run -->` (`marked_commands`) are run before its doctests, in a folder that
holds these files.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import math
import re
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import numpy as np
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner
from hydra import compose, initialize_config_dir
from markdown import Markdown  # type: ignore[import-untyped]
from markdown.extensions import Extension  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]
from mkdocs.config.defaults import MkDocsConfig

import ltrbench
from ltrbench.cli.help.page import verbs_help
from ltrbench.cli.help.settings import ConfigFile, config_files
from ltrbench.cli.lesson import tell
from ltrbench.cli.verbs import all_verbs, verbs
from ltrbench.config import build, conf_dir, register_schema
from ltrbench.data import RankingDataset
from ltrbench.errors import ConfigError
from ltrbench.metrics import DEFAULT, PRESETS, Convention, evaluate
from ltrbench.metrics.functions import ALIASES, METRICS
from ltrbench.metrics.presets import ABOVE_HALF
from ltrbench.rankers import BoostingRanker, Ranker
from ltrbench.rankers.library import SHARED_FIELDS
from ltrbench.rankers.native import NativeRanker

ROOT = Path(__file__).resolve().parents[1]
HELP_WIDTH = 100
_LONGEST_VALUE = 100  # characters

_PLACEHOLDER = re.compile(r"^<!-- generated: (?P<name>[\w-]+) ?(?P<argument>.*?) -->$", re.MULTILINE)
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(r"^<!-- run -->\n```sh[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_COMMAND_AT_END = re.compile(r"(?:^|\s)(python -m ltrbench .*)$")
_SNIPPET = re.compile(r'^--8<-- "([^"]+)"$', re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Called by mkdocs first. Examples in docstrings are bare `>>>`, which Markdown takes for quotes."""
    config.markdown_extensions.append(_FencedDoctests())


class _FencedDoctests(Extension):  # type: ignore[misc]
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # Markdown's name
        # Between the snippets, which bring lines in, and the fences, which these lines then are.
        md.preprocessors.register(_DoctestPreprocessor(md), "doctests", 28)


class _DoctestPreprocessor(Preprocessor):  # type: ignore[misc]
    def run(self, lines: list[str]) -> list[str]:
        return fence_doctests(lines)


def fence_doctests(lines: Sequence[str]) -> list[str]:
    """Puts each example that stands outside a fence into one; it ends with an empty line.

    >>> fence_doctests(["So:", "", ">>> 1 + 1", "2", "", "And"])
    ['So:', '', '```pycon', '>>> 1 + 1', '2', '```', '', 'And']
    """
    fenced: list[str] = []
    inside = example = False
    for line in [*lines, ""]:
        if line.lstrip().startswith("```"):
            inside = not inside
        if example and not line.strip():
            fenced.append("```")
            example = False
        elif line.startswith(">>> ") and not inside and not example:
            fenced.append("```pycon")
            example = True
        fenced.append(line)
    return fenced[:-1]


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs with every page."""
    return fill(markdown)


def fill(markdown: str) -> str:
    """The page with its placeholders filled; KeyError where nothing of that name is generated."""

    def generate(placeholder: re.Match[str]) -> str:
        return GENERATORS[placeholder["name"]](placeholder["argument"], markdown)

    return _PLACEHOLDER.sub(generate, markdown)


def titled_files(markdown: str) -> dict[str, str]:
    """Path -> content of each fenced block that has a title, its included files in their place.

    >>> titled_files('```text title="scores.txt"\\n1\\n2\\n```')
    {'scores.txt': '1\\n2\\n'}
    """
    return {
        title[1]: _SNIPPET.sub(lambda found: (ROOT / found[1]).read_text().rstrip("\n"), fence["body"])
        for fence in _FENCE.finditer(markdown)
        if (title := _TITLE.search(fence["info"]))
    }


def marked_commands(markdown: str) -> list[str]:
    """The shell blocks that are to be run before the page's doctests.

    >>> marked_commands("<!-- run -->\\n```sh\\nls\\n```")
    ['ls\\n']
    """
    return [found["body"] for found in _MARKED.finditer(markdown)]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; a bar or a new line in a cell does no harm.

    >>> print(table(["key", "is"], [["a", "x | y"]]))
    | key | is |
    | --- | --- |
    | a | x \\| y |
    """

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(_escaped(' '.join(cell.split())) for cell in cells)} |"

    return "\n".join([line(header), line(["---"] * len(header)), *map(line, rows)])


def _escaped(cell: str) -> str:
    """A bar ends a cell, and a brace outside of code begins what Markdown takes for attributes."""
    parts = cell.replace("|", r"\|").split("`")
    return "`".join(part if number % 2 else part.replace("{", r"\{") for number, part in enumerate(parts))


def _code(value: object) -> str:
    text = str(value)
    return f"`{text}`" if text else ""


# Configuration: every key of every YAML in conf/, with the comments that stand there.


def _configuration(argument: str, page: str) -> str:
    """Every YAML of a group, a section each; "" is conf/config.yaml, "hydra" what is below it."""
    del page
    files = [item for item in config_files() if item.group.partition("/")[0] == argument]
    return "\n\n".join(_config_section(item) for item in files)


def _config_section(item: ConfigFile) -> str:
    parts = [_config_heading(item)] if item.group else []
    parts += [_with_commands(item.intro)] if item.intro else []
    if item.target is not None:
        parts.append(f"Builds `{item.target}`.")
    if item.bases:
        links = (f"[`{item.group}/{base}`](#{_config_anchor(item.group, base)})" for base in item.bases)
        parts.append(f"Begins with the keys of {', '.join(links)}.")
    if item.keys:
        rows = [[_code(key.name), _value_cell(key.value), key.comment] for key in item.keys]
        parts.append(table(["key", "value", "what it is"], rows))
    return "\n\n".join(parts)


def _value_cell(value: str) -> str:
    """A sentence or more is prose; all else is code."""
    return value if len(value) > _LONGEST_VALUE else _code(value)


def _config_heading(item: ConfigFile) -> str:
    chosen = item.name.startswith("_") or item.group.startswith("hydra")
    title = f"{item.group}/{item.name}" if chosen else f"{item.group}={item.name}"
    return f"### `{title}` {{ #{_config_anchor(item.group, item.name)} }}"


def _config_anchor(group: str, name: str) -> str:
    return f"{group}-{name}".replace("/", "-")


def _with_commands(intro: str) -> str:
    """A comment as paragraphs; a line that is a command becomes a block of its own."""
    blocks: list[str] = []
    for line in intro.splitlines():
        found = _COMMAND_AT_END.search(line)
        said = line[: found.start()].strip() if found else line.strip()
        if said and blocks and not blocks[-1].startswith("```"):
            blocks[-1] += f" {said}"
        elif said:
            blocks.append(said)
        if found:
            blocks.append(f"```sh\n{found[1]}\n```")
    return "\n\n".join(blocks)


def _groups(argument: str, page: str) -> str:
    """The groups with what may be chosen from each, and what conf/config.yaml chooses."""
    del argument, page
    text = (conf_dir() / "config.yaml").read_text()
    defaults = [item for item in yaml.safe_load(text)["defaults"] if isinstance(item, dict)]
    rows = []
    for item in defaults:
        ((group, chosen),) = item.items()
        names = choices(group)
        if names:
            links = (f"[`{name}`](#{_config_anchor(group, name)})" for name in names)
            rows.append([_code(group), _code("null" if chosen is None else chosen), ", ".join(links)])
    return table(["group", "default", "choices"], rows)


def choices(group: str) -> list[str]:
    """The names that group=NAME takes, of ours."""
    return sorted(path.stem for path in conf_dir().glob(f"{group}/*.yaml") if not path.stem.startswith("_"))


# Parameters: what each shared one becomes in each backend, found out by asking the adapters.

# Settings that may bring further sentences of `unmatched`; what a backend does not have is passed over.
_PROBES = (
    "params.l2=1",
    "params.min_split_gain=1",
    "params.max_delta_step=1",
    "model.feature_fraction=0.5",
    "model.features_per_tree=0.5",
    "model.documents_per_tree=0.5",
    "model.goss_top_rate=0.2 model.goss_other_rate=0.1",
    "model.drop_rate=0.1",
    "model.position_bias=additive",
    "model.subsample=0.5",
    "model.rsm=0.5",
    "model.objective=rank_xendcg params.truncation=null",
    "model.objective=pairwise",
    "model.objective=xendcg params.truncation=null",
    "model.metric=map",
    "model.metric=ndcg@10",
    "model.ties=worst",
    "model.loss=YetiRank params.truncation=null",
)


@cache
def ranker_of(model: str, *overrides: str) -> Ranker:
    """The unfitted ranker of `model=NAME` under these settings.

    Raises:
        ConfigError: where it cannot be built so; HydraException where there is no such key.
    """
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        config = compose("config", overrides=[f"model={model}", "num_threads=1", *overrides])
    return build(config, "model", Ranker)


@cache
def boosting_models() -> dict[str, BoostingRanker]:
    """Name -> ranker under params=matched, of all models that take the shared parameters."""
    rankers = {name: ranker_of(name) for name in choices("model") if name not in presets()}
    return {name: ranker for name, ranker in rankers.items() if isinstance(ranker, BoostingRanker)}


@cache
def presets() -> dict[str, NativeRanker]:
    """Name -> ranker, of the models that are settings of the native engine under the name of a library."""
    rankers = {name: ranker_of(name) for name in choices("model")}
    return {
        name: ranker
        for name, ranker in rankers.items()
        if isinstance(ranker, NativeRanker) and ranker.preset is not None
    }


def _presets(argument: str, page: str) -> str:
    """A row a setting in which a preset departs from `model=native`, a column a preset."""
    del argument, page
    native = ranker_of("native")
    names = [
        field.name
        for field in fields(NativeRanker)
        if field.init
        and any(getattr(of, field.name) != getattr(native, field.name) for of in presets().values())
    ]
    rows = [
        [_code(name), *(_code(_words(getattr(ranker, name))) for ranker in (native, *presets().values()))]
        for name in names
    ]
    return table(["setting", *map(_code, ("native", *presets()))], rows)


def _shared_parameters(argument: str, page: str) -> str:
    """The shared parameters: what each means, and its value under params=matched and params=library."""
    del argument, page
    meanings = field_docstrings(BoostingRanker)
    matched, library = (
        {key.name.removeprefix("params."): key for key in item.keys}
        for name in ("matched", "library")
        for item in config_files()
        if (item.group, item.name) == ("params", name)
    )
    rows = [
        [_code(f"params.{name}"), meanings[name], _code(key.value), key.comment, library[name].comment]
        for name, key in matched.items()
    ]
    return table(["parameter", "meaning", "matched", "why", "with params=library"], rows)


def field_docstrings(kind: type) -> dict[str, str]:
    """Field -> the text that stands below it in the class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: " ".join(str(text.value.value).split())
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


def _translation(argument: str, page: str) -> str:
    """A row a shared parameter, a column a backend: what the parameter becomes there."""
    del argument, page
    models = boosting_models()
    rows = [
        [_code(field), *(_translated(ranker, field) for ranker in models.values())] for field in SHARED_FIELDS
    ]
    return table(["parameter", *models], rows)


def _translated(ranker: BoostingRanker, field: str) -> str:
    """Found by three settings of the field: its matched value, another one, and null."""
    value = getattr(ranker, field)
    if value is None:
        return "not applied"
    usual, unset = ranker.own_parameters(), _varied(ranker, field, None).own_parameters()
    other_value = value // 2 if isinstance(value, int) else value * 2 or 1.0
    try:
        other = _varied(ranker, field, other_value).own_parameters()
    except ConfigError:
        fixed = [f"`{name} = {usual[name]}`" for name in usual if usual[name] != unset.get(name)]
        return "; ".join([*fixed, f"{value:g} or null only"])
    said = [
        _relation(name, (value, usual[name]), (other_value, other[name])) for name in usual if name in other
    ]
    implied = [
        f"`{name} = {usual[name]}`"
        for name in usual
        if usual[name] == other.get(name) and usual[name] != unset.get(name)
    ]
    return "; ".join([*filter(None, said), *implied])


def _varied(ranker: BoostingRanker, field: str, value: Any) -> BoostingRanker:
    settings: dict[str, Any] = {field: value}
    return replace(ranker, **settings)


def _relation(name: str, usual: tuple[float, Any], other: tuple[float, Any]) -> str:
    """How a library's parameter follows from ours, from two points of a straight line; "" where it does not.

    The name alone where the value is taken as it is.

    >>> _relation("eta", (0.1, 0.2), (0.2, 0.4)), _relation("border_count", (255, 254), (127, 126))
    ('`eta = 2 * value`', '`border_count = value - 1`')
    """
    (x, y), (other_x, other_y) = usual, other
    if y == other_y:
        return ""
    slope = (other_y - y) / (other_x - x)
    constant = y - slope * x
    if math.isclose(slope, 1) and math.isclose(constant, 0, abs_tol=1e-9):
        return f"`{name}`"
    factor = "" if math.isclose(slope, 1) else f"{slope:g} * "
    sign = "-" if constant < 0 else "+"
    shift = "" if math.isclose(constant, 0, abs_tol=1e-9) else f" {sign} {abs(constant):g}"
    return f"`{name} = {factor}value{shift}`"


def _given_to_libraries(argument: str, page: str) -> str:
    """All that each library is given under params=matched, seeds and threads included."""
    del argument, page
    blocks = []
    for model, ranker in boosting_models().items():
        lines = "\n".join(f"{name}: {value}" for name, value in ranker.own_parameters().items())
        blocks.append(f'??? note "{model}"\n\n' + textwrap.indent(f"```yaml\n{lines}\n```", "    "))
    return "\n\n".join(blocks)


def _unmatched(argument: str, page: str) -> str:
    """What each backend says of itself: always, under params=library, and under settings that bring more."""
    del argument, page
    sections = []
    for model, ranker in boosting_models().items():
        under = {sentence: ["`params=matched`"] for sentence in ranker.unmatched()}
        for sentence in ranker_of(model, "params=library").unmatched():
            under.setdefault(sentence, []).append("`params=library`")
        for probe in _PROBES:
            for sentence in _unmatched_under(model, probe):
                if sentence not in ranker.unmatched():
                    under.setdefault(sentence, []).append(" with ".join(map(_code, probe.split())))
        rows = [[sentence, ", ".join(settings)] for sentence, settings in under.items()]
        sections.append(f"### `model={model}`\n\n{table(['what is said', 'under'], rows)}")
    return "\n\n".join(sections)


def _unmatched_under(model: str, probe: str) -> tuple[str, ...]:
    field = probe.partition("=")[0].removeprefix("model.")
    if probe.startswith("model.") and not hasattr(boosting_models()[model], field):
        return ()
    try:
        return ranker_of(model, *probe.split()).unmatched()
    except ConfigError:
        return ()


# Conventions and metrics.


def _conventions(argument: str, page: str) -> str:
    """The presets in one table."""
    del argument, page
    rows = [
        [
            f"[`{name}`](#convention-{name})",
            *(_setting(convention, field) for field in ("gain", "discount", "ties", "no_relevant")),
            ", ".join(convention.describe()["metrics"] or ["all"]),
        ]
        for name, convention in PRESETS.items()
    ]
    return table(
        ["convention", "gain", "discount", "ties", "query without a relevant document", "metrics"], rows
    )


def _setting(convention: Convention, field: str) -> str:
    """A field in words, with the metrics that depart from it."""
    described = convention.describe()
    departures = [
        f"{metric}: {values[field]}" for metric, values in described["by_metric"].items() if field in values
    ]
    # exponential_gain stands in the column of gains.
    value = str(described[field]).removesuffix(f"_{field}").replace("_", " ")
    return f"{value} ({', '.join(departures)})" if departures else value


def _convention_sections(argument: str, page: str) -> str:
    """A section a preset: its quirks, and where it is not the default."""
    del argument, page
    return "\n\n".join(_convention_section(name, convention) for name, convention in PRESETS.items())


def _convention_section(name: str, convention: Convention) -> str:
    default, described = DEFAULT.describe(), convention.describe()
    quirks, by_metric = described.pop("quirks"), described.pop("by_metric")
    is_default = convention is DEFAULT
    shown = {
        field: value
        for field, value in described.items()
        if field not in ("name", "metrics") and value != (None if is_default else default[field])
    }
    rows = [[_code(field), _code(_words(value))] for field, value in shown.items()]
    rows += [
        [f"`{field}` of {metric}", _code(_words(value))]
        for metric, departures in by_metric.items()
        for field, value in departures.items()
    ]
    title = "setting" if is_default else "departs from the default in"
    listed = "\n".join(f"- {quirk}" for quirk in quirks)
    heading = f"### `{name}` {{ #convention-{name} }}"
    return "\n\n".join(part for part in (heading, listed, table([title, "value"], rows)) if part)


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value == ABOVE_HALF:
        return "above 0.5"
    return "none" if value is None else str(value)


def _metrics(argument: str, page: str) -> str:
    """Every metric, with its formula's first line."""
    del argument, page
    rows = []
    for name, metric in METRICS.items():
        names = [name, *(alias for alias, meant in ALIASES.items() if meant == name)]
        formula = inspect.getdoc(metric.function) or ""
        cutoff = "" if metric.no_cutoff else "@k"
        first = " ".join(formula.partition("\n\n")[0].split())
        rows.append([", ".join(_code(f"{each}{cutoff}") for each in names), first])
    return table(["name", "what it is"], rows)


# Commands.


def _verbs(argument: str, page: str) -> str:
    """A section a verb, with its --help."""
    del argument, page
    sections = []
    for name, command in all_verbs().items():
        context = click.Context(
            command,
            info_name=f"python -m ltrbench {name}",
            terminal_width=HELP_WIDTH,
            max_content_width=HELP_WIDTH,
        )
        sections.append(f"## `{name}`\n\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(sections)


def _overview(argument: str, page: str) -> str:
    """What `python -m ltrbench --help` begins and ends with."""
    del argument, page
    text = yaml.safe_load((conf_dir() / "hydra" / "help" / "ltrbench.yaml").read_text())
    return f"```text\n{text['header']}\n{verbs_help()}\n\n{text['footer'].rstrip()}\n```"


def _run(argument: str, page: str) -> str:
    """A verb and what it prints, run in a folder that holds the page's files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(titled_files(page), Path())
        result = CliRunner().invoke(verbs, argument.split(), catch_exceptions=False)
    if result.exit_code != 0:
        raise ConfigError(f"python -m ltrbench {argument} failed: {result.output}")
    command = f"```sh\npython -m ltrbench {argument}\n```"
    return f"{command}\n\n```text\n{result.stdout.rstrip()}\n```"


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Writes the files of a page into a folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


# The rest: results, listings of files, and the public names of a package.


def _committed_table(argument: str, page: str) -> str:
    """A table of results/, without its headings, which would be the page's."""
    del page
    lines = (ROOT / argument).read_text().splitlines()
    shown = (f"**{line.lstrip('# ')}**" if line.startswith("## ") else line for line in lines[1:])
    return "\n".join(shown).strip()


def _listing(argument: str, page: str) -> str:
    """The files that a module's docstring lists, in a block of lines `name   what it holds`."""
    del page
    docstring = inspect.getdoc(importlib.import_module(argument)) or ""
    rows: list[list[str]] = []
    for line in docstring.splitlines():
        entry = re.match(r"    (\S+) {2,}(\S.*)$", line)
        if entry:
            rows.append([_code(entry[1]), entry[2]])
        elif rows and re.match(r" {8,}\S", line):
            rows[-1][1] += f" {line.strip()}"
    return table(["file", "what it holds"], rows)


def _reference(argument: str, page: str) -> str:
    """A package: what it is, and each of its public names."""
    del page
    package = importlib.import_module(argument)
    names = [name for name in package.__all__ if not isinstance(getattr(package, name), Mapping)]
    options = "members: false, heading_level: 2, show_root_full_path: true, show_symbol_type_heading: false"
    about = f"::: {argument}\n    options: {{{options}}}"
    return "\n\n".join([about, *(f"::: {argument}.{name}" for name in names)])


def _public_names(argument: str, page: str) -> str:
    """A row a module, with those of its names that are attributes of the package itself."""
    del argument, page
    names_of = {
        **ltrbench._NAMES_OF,
        "ltrbench.compare": ("compare", *ltrbench._NAMES_OF["ltrbench.compare"]),
    }
    rows = [
        [_code(module), ", ".join(f"[`{name}`][{module}.{name}]" for name in names)]
        for module, names in names_of.items()
    ]
    return table(["from", "names"], rows)


def _backends(argument: str, page: str) -> str:
    """The class of each YAML in conf/model, and what its settings beside the shared ones mean."""
    del argument, page
    targets = [item.target for item in config_files() if item.group == "model" and item.target]
    return "\n\n".join(map(_backend, targets))


def _backend(target: str) -> str:
    about = f"::: {target}\n    options: {{members: false}}"
    module, _, name = target.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    rows = [[_code(setting), meaning] for setting, meaning in own_settings(kind).items()]
    return f"{about}\n\n{table(['setting', 'meaning'], rows)}" if rows else about


def own_settings(kind: type[Ranker]) -> dict[str, str]:
    """Field -> what it means, of those that a ranker's class, or a base of its own, adds to the contract."""
    own = [base for base in reversed(kind.__mro__) if not issubclass(BoostingRanker, base)]
    names = {field.name for field in fields(kind)}
    return {
        name: meaning for base in own for name, meaning in field_docstrings(base).items() if name in names
    }


def _evaluator_keys(argument: str, page: str) -> str:
    """What the MLflow evaluator's configuration takes."""
    del argument, page
    # Late, because MLflow takes seconds to import.
    from ltrbench.tracking.evaluator import _KEYS

    return table(["key", "it must be"], [[_code(key), meaning] for key, (_, meaning) in _KEYS.items()])


def _walkthrough(argument: str, page: str) -> str:
    """What `python -m ltrbench walkthrough` prints."""
    del argument, page
    return tell()


def _ndcg_by_library(argument: str, page: str) -> str:
    """NDCG@2 of one set of scores under every convention: the first thing that a reader sees."""
    del argument, page
    data = RankingDataset(
        features=[[0.0]] * 6,  # type: ignore[arg-type]
        labels=[3, 0, 1, 2, 0, 0],  # type: ignore[arg-type]
        query_start=[0, 4, 6],  # type: ignore[arg-type]
        document_ids=np.array(list("abcdef")),  # by which trec_eval ranks ties
    )
    scores = np.array([0.1, 0.2, 0.9, 0.3, 0.5, 0.5])
    figures = {name: evaluate(data, scores, ["ndcg@2"], own).means["ndcg@2"] for name, own in PRESETS.items()}
    return table(list(figures), [[f"{figure:.4f}" for figure in figures.values()]])


GENERATORS: dict[str, Callable[[str, str], str]] = {
    "configuration": _configuration,
    "groups": _groups,
    "shared-parameters": _shared_parameters,
    "translation": _translation,
    "given-to-libraries": _given_to_libraries,
    "unmatched": _unmatched,
    "presets": _presets,
    "conventions": _conventions,
    "convention-sections": _convention_sections,
    "metrics": _metrics,
    "verbs": _verbs,
    "overview": _overview,
    "run": _run,
    "committed-table": _committed_table,
    "listing": _listing,
    "public-names": _public_names,
    "reference": _reference,
    "backends": _backends,
    "evaluator-keys": _evaluator_keys,
    "ndcg-by-library": _ndcg_by_library,
    "walkthrough": _walkthrough,
}
"""Name of a placeholder -> what fills it, from the placeholder's argument and the page."""
