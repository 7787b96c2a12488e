"""Hooks of mkdocs: fill in macros, show examples in docstrings as code, add the pictures of results."""

from __future__ import annotations

import re
from collections.abc import Sequence

from markdown import Markdown  # type: ignore[import-untyped]
from markdown.extensions import Extension  # type: ignore[import-untyped]
from markdown.preprocessors import Preprocessor  # type: ignore[import-untyped]
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.macros import fill
from docs.pages import ROOT

_PICTURE = re.compile(
    r"!\[(?P<text>[^]]*)\]\(\.\./(?P<up>(?:\.\./)*)(?P<path>results/[^)]+)\)"
)
"""A picture of results/, linked from a page of docs/ by its place in the repository."""


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fills in the macros, and the pictures of results. mkdocs calls it for every page."""
    return pictures_of_site(fill(markdown))


def pictures_of_site(markdown: str) -> str:
    """Returns the page with links to the pictures of results/ in the site, where results/ is beside the
    folders of docs/. A study without results has no pictures.

    >>> pictures_of_site("![Times of fits](../../results/mq2007/time_against_ndcg.png)")
    '![Times of fits](../results/mq2007/time_against_ndcg.png)'
    >>> pictures_of_site("![Times of fits](../../results/not_run/time_against_ndcg.png)")
    '*Times of fits: not available.*'
    """
    return _PICTURE.sub(_picture_of_site, markdown)


def _picture_of_site(found: re.Match[str]) -> str:
    if not (ROOT / found["path"]).exists():
        return f"*{found['text']}: not available.*"
    return f"![{found['text']}]({found['up']}{found['path']})"


def on_config(config: MkDocsConfig) -> None:
    """Fences doctests, because Markdown reads a bare `>>>` as a quotation. mkdocs calls it first."""
    config.markdown_extensions.append(_FencedDoctests())


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pictures of results/ that pages show. mkdocs calls it with the files of docs/."""
    text = "".join(page.content_string for page in files.documentation_pages())
    paths = {found["path"] for found in _PICTURE.finditer(text)}
    for path in sorted(paths):
        picture = ROOT / path
        if picture.exists():
            files.append(File.generated(config, path, abs_src_path=str(picture)))


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
