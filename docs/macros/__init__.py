"""Macros: `{{ NAME(...) }}` on a page is replaced by the Markdown that the function NAME in here returns.

The text comes from conf/, from the code, or from the output of a verb, so that it cannot be out of date. A
new macro is a function and its name in `MACROS`. Jinja calls it, as in mkdocs-macros, but without mkdocs, so
that tests can read the filled page. mkdocs-click shows verbs, and mkdocstrings shows docstrings.
"""

from __future__ import annotations

from jinja2 import Environment, StrictUndefined

from docs.macros.commands import overview, run
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
    committed_studies,
    committed_table,
    leaderboards,
    listing,
    published_data_sets,
    published_figures,
    result_schema,
    results_by_study,
)
from docs.macros.shipping import absent_features
from docs.macros.translation import translation
from docs.walkthrough import tell

MACROS = (
    *(
        overview,
        run,
        configuration,
        groups,
        conventions,
        convention_sections,
        metrics,
        ndcg_by_library,
    ),
    *(
        shared_parameters,
        given_to_libraries,
        unmatched,
        presets,
        translation,
        backends,
        evaluator_keys,
    ),
    *(objectives, public_names, reference, committed_table, leaderboards, listing),
    *(
        committed_studies,
        published_data_sets,
        published_figures,
        result_schema,
        results_by_study,
    ),
    absent_features,
)


def fill(page: str) -> str:
    """Returns the page with its macros filled in. Raises UndefinedError for an unknown macro."""
    macros = {macro.__name__: macro for macro in MACROS}
    template = Environment(undefined=StrictUndefined).from_string(page)
    return template.render(page=page, walkthrough=tell, **macros)
