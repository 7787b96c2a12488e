"""All imports from private modules of Hydra; no other file has one.

`get_args_parser`            Hydra's parser of flags, which separates overrides from flags
`apply_overrides`            sets values as Hydra does, without reading every YAML again for each job
`BasicSweeper`               the base class of `CheckedSweeper`, which replaces it
`Hydra`                      the loader of YAMLs, which completion uses without running a job
`HydraCompletion`            completes overrides
`create_config_search_path`  the search path of that loader, before --config-dir is added
"""

from __future__ import annotations

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.plugins import Plugins

# Hydra's first search for plug-ins imports their modules again: a class imported before that search would not
# be the class that Hydra uses.
Plugins.instance()
from hydra._internal.core_plugins.bash_completion import BashCompletion as HydraCompletion  # noqa: E402
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402

__all__ = [
    "BasicSweeper",
    "Hydra",
    "HydraCompletion",
    "apply_overrides",
    "create_config_search_path",
    "get_args_parser",
]

apply_overrides = ConfigLoaderImpl._apply_overrides_to_config
