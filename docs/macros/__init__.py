"""Macros: functions that return Markdown from conf/, the code, results/, or the output of a verb.

A page calls a macro in one of two ways:

    <!-- filled: conventions() -->    `make pages` writes the text into the page, up to <!-- end -->
    {{ reference("ltrbench.data") }}  only the site has the text, because mkdocs reads it

A new macro is a function and its name in `MACROS`. mkdocs-click shows verbs, mkdocstrings docstrings.
"""

from __future__ import annotations

import re

from jinja2 import Environment, StrictUndefined

from docs.macros.commands import make_targets, overview, run
from docs.macros.configuration import configuration, groups
from docs.macros.conventions import (
    convention_sections,
    conventions,
    metrics,
    ndcg_by_library,
)
from docs.macros.parameters import (
    given_to_libraries,
    presets,
    shared_parameters,
    unmatched,
)
from docs.macros.reference import (
    backends,
    evaluator_keys,
    objectives,
    public_names,
    reference,
)
from docs.macros.results import (
    answer,
    committed_studies,
    committed_table,
    example_file,
    leaderboards,
    listing,
    published_data_sets,
    published_figures,
    result_schema,
    results_by_study,
    sizes_of_data_sets,
    snippet,
)
from docs.macros.shipping import absent_features
from docs.macros.translation import translation
from docs.pages import FILLED
from docs.walkthrough import walkthrough

MACROS = (
    overview,
    run,
    configuration,
    groups,
    conventions,
    convention_sections,
    metrics,
    ndcg_by_library,
    shared_parameters,
    given_to_libraries,
    unmatched,
    presets,
    translation,
    backends,
    evaluator_keys,
    objectives,
    public_names,
    reference,
    committed_table,
    leaderboards,
    listing,
    committed_studies,
    published_data_sets,
    published_figures,
    result_schema,
    results_by_study,
    absent_features,
    answer,
    example_file,
    make_targets,
    sizes_of_data_sets,
    snippet,
    walkthrough,
)

_OF_SITE = re.compile(r"^\{\{ (?P<call>.+) \}\}$", re.MULTILINE)


def fill(page: str) -> str:
    """Returns the page with the macros that only the site has. Raises UndefinedError for an unknown macro."""
    return _OF_SITE.sub(lambda found: _called(found["call"], page), page)


def refill(page: str) -> str:
    """Returns the page with its committed text written anew."""

    def filled(found: re.Match[str]) -> str:
        text = _called(found["call"], page).strip()
        return f"<!-- filled: {found['call']} -->\n\n{text}\n\n<!-- end -->"

    return FILLED.sub(filled, page)


def _called(call: str, page: str) -> str:
    macros = {macro.__name__: macro for macro in MACROS}
    environment = Environment(undefined=StrictUndefined)
    expression = environment.compile_expression(call, undefined_to_none=False)
    return str(expression(page=page, **macros))
