"""Committed results, lists of output files, and published data sets."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import textwrap

from omegaconf import OmegaConf
from pydantic import TypeAdapter

from docs import leaderboard
from docs.macros.tables import code, folded, table
from docs.macros.yamls import ConfigFile, config_files
from docs.pages import ROOT
from docs.published import as_table, catalogue, under
from ltrbench.folders import conf_dir
from ltrbench.metrics import DEFAULT
from ltrbench.runs import RunResult
from ltrbench.tables import GLOSSARY_FILE

_ROOT_OF_DATA = "data"
_SPLITS = ("train", "valid", "test")
_COLUMNS_OF_ANSWER = 6
_NEXT_STEP = ("Next step", "    ")  # the sentence, and its command in a block


def committed_table(path: str) -> str:
    """Returns a table of results/, with bold titles instead of headings, and links to the docs' glossary."""
    text = (ROOT / path).read_text(encoding="utf-8")
    # From any folder of the docs.
    lines = text.replace(
        f"]({GLOSSARY_FILE}#", f"](../lookup/{GLOSSARY_FILE}#"
    ).splitlines()
    shown = (
        f"**{line.lstrip('# ')}**" if line.startswith("## ") else line
        for line in lines[1:]
    )
    return "\n".join(shown).strip()


def leaderboards() -> str:
    """Returns a section with the table of each data set of the leaderboard."""
    paths = sorted((ROOT / "results" / "leaderboard").glob("*/table.md"))
    return "\n\n".join(
        f"## {path.parent.name}\n\n{committed_table(path.relative_to(ROOT).as_posix())}"
        for path in paths
    )


def snippet(path: str) -> str:
    """Returns a file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def example_file(path: str, title: str) -> str:
    """Returns a Python file or YAML of the repository as a file of the page's example."""
    info = "yaml" if path.endswith(".yaml") else "python"
    return f'```{info} title="{title}"\n{snippet(path).rstrip()}\n```'


def listing(module: str) -> str:
    """Returns the first indented block of a module's docstring: its files and their content."""
    docstring = inspect.getdoc(importlib.import_module(module)) or ""
    (block, *_) = re.findall(r"(?:^    .+\n)+", docstring, re.MULTILINE)
    return f"```text\n{textwrap.dedent(block)}```"


def result_schema() -> str:
    """Returns the JSON schema of result.json in a block that opens on a click."""
    schema = TypeAdapter(RunResult).json_schema()
    schema.pop("description")  # the docstring, which the page shows
    block = f"```json\n{json.dumps(schema, indent=1)}\n```"
    return folded("JSON schema", block)


def published_data_sets() -> str:
    """Returns a table of the published data sets in conf/data: name, content, folds and files."""
    files = {item.name: item for item in config_files() if item.group == "data"}
    rows = [
        [
            f"[`{name}`](configuration.md#data-{name})",
            _description(item),
            _folds(item),
            _layout(item),
        ]
        for name, item in files.items()
        if _value(item, "obtain")
    ]
    return table(["name", "data", "folds", "files below `data/`"], rows)


def sizes_of_data_sets() -> str:
    """Returns a table of the published data sets whose size is known: memory of features and of bins."""
    rows = []
    for item in config_files():
        documents = _counted(item, "documents")
        features = _counted(item, "features")
        if item.group == "data" and documents and features:
            values = documents * features
            shown = [f"{documents:,}", str(features)]
            shown += [f"{size * values / 1e6:,.0f}" for size in (4, 1)]
            rows.append([code(item.name), *shown])
    header = ["name", "documents", "features", "store MB", "bins of native MB"]
    return table(header, rows)


def _counted(item: ConfigFile, unit: str) -> int:
    """Returns a number that the comment at the top of the YAML states; 0 if it does not."""
    found = re.search(rf"([\d,]+) {unit}", item.intro)
    return int(found[1].replace(",", "")) if found else 0


def _description(item: ConfigFile) -> str:
    """Returns the comment at the top of the YAML, up to the first command."""
    return item.intro.partition("python -m ltrbench")[0].strip()


def _folds(item: ConfigFile) -> str:
    return "5" if "_five_folds" in item.bases else "1"


def _layout(item: ConfigFile) -> str:
    """Returns the paths of the splits below the data folder, for fold 1 and the default version."""
    file = conf_dir() / item.group / f"{item.name}.yaml"
    settings = OmegaConf.merge(OmegaConf.load(file), {"root": _ROOT_OF_DATA, "fold": 1})
    paths = (OmegaConf.select(settings, split) for split in _SPLITS)
    return ", ".join(
        code(path.removeprefix(f"{_ROOT_OF_DATA}/")) for path in paths if path
    )


def _value(item: ConfigFile, key: str) -> str:
    value_of = {each.name: each.value for each in item.keys}
    return value_of.get(f"data.{key}", "")


def results_by_study() -> str:
    """Returns a table of the studies of ltrbench, and one of tuned models, with links to the results."""
    return f"{leaderboard.leaderboard()}\n{leaderboard.tuned()}"


def answer(study: str) -> str:
    """Returns the answer of a committed comparison with one data set: the main columns and the sentences."""
    path = ROOT / "results" / study / "table.md"
    _, _, section = path.read_text(encoding="utf-8").partition("\n## ")
    title, *paragraphs = section.split("\n\n")
    models = next(part for part in paragraphs if part.startswith("|"))
    before = paragraphs[: paragraphs.index(models)]
    sentences = [part for part in before if not part.startswith(_NEXT_STEP)]
    shown = "\n".join(map(_main_columns, models.splitlines()))
    return f"**{title}**\n\n{shown}\n\n{' '.join(sentences)}"


def _main_columns(row: str) -> str:
    cells = row.split("|")
    return "|".join([*cells[: _COLUMNS_OF_ANSWER + 1], ""])


def committed_studies() -> str:
    """Returns a section for each study of the leaderboard: its table, and a plot of quality against time."""
    return "\n\n".join(_study(name) for name in leaderboard.STUDIES)


def _study(name: str) -> str:
    parts = [f"## {name}", committed_table(f"results/{name}/table.md")]
    picture = f"results/{name}/time_against_ndcg.png"
    if (ROOT / picture).exists():
        text = f"Test NDCG@10 on {name} against the seconds of a fit"
        parts.append(f"![{text}](../../{picture})")
    return "\n\n".join(parts)


def published_figures() -> str:
    """Returns a section for each data set of the catalogue, and one with the sources."""
    names = sorted({figure.data for figure in catalogue()})
    return "\n\n".join([*map(_figures_on, names), _sources_of_figures()])


def _figures_on(name: str) -> str:
    """Returns the figures on a data set with their values under the default convention, and the reasons."""
    figures = [figure for figure in catalogue() if figure.data == name]
    items = [under(figure, figure.metric, DEFAULT) for figure in figures]
    table_of_figures, reasons = as_table(items, DEFAULT.name)
    bullets = "\n".join(f"- {reason}" for reason in reasons)
    return f"## {name}\n\n{table_of_figures.markdown()}\n\n{bullets}"


def _sources_of_figures() -> str:
    sources = {figure.source.name: figure.source for figure in catalogue()}
    lines = [
        f"- {name}: [{source.source}]({source.address}). {source.summary}".rstrip()
        for name, source in sorted(sources.items())
    ]
    return "## Sources\n\n" + "\n".join(lines)
