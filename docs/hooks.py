"""Hooks of mkdocs: fill in macros, show examples in docstrings as code, add the pictures of results."""

from __future__ import annotations

from collections.abc import Sequence

from markdown import Markdown  # type: ignore[import-untyped]
from markdown.extensions import Extension  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs import leaderboard
from docs.macros import fill
from docs.pages import ROOT


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fills in the macros. mkdocs calls it for every page."""
    return fill(markdown)


def on_config(config: MkDocsConfig) -> None:
    """Fences doctests, because Markdown reads a bare `>>>` as a quotation. mkdocs calls it first."""
    config.markdown_extensions.append(_FencedDoctests())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pictures of the committed results. mkdocs calls it with the files of docs/."""
    pictures = {
        study: f"{study}/time_against_ndcg.png" for study in leaderboard.STUDIES
    }
    pictures["losses"] = "losses_synthetic/differences.png"
    for name, picture in pictures.items():
        place, file = f"images/results/{name}.png", ROOT / "results" / picture
        files.append(File.generated(config, place, abs_src_path=str(file)))


class _FencedDoctests(Extension):  # type: ignore[misc]
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # Markdown's name
        # After the snippets, which include lines, and before the fences, which read them.
        md.preprocessors.register(_DoctestPreprocessor(md), "doctests", 28)


class _DoctestPreprocessor(Preprocessor):  # type: ignore[misc]
    def run(self, lines: list[str]) -> list[str]:
        return fence_doctests(lines)


def fence_doctests(lines: Sequence[str]) -> list[str]:
    """Puts each example outside of a fence into a fence. An example ends with an empty line.

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
