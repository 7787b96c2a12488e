"""What ltrbench needs of Hydra's private modules, which no other file imports.

`get_args_parser`            Hydra's own parser of flags: overrides are told from flags as Hydra tells them
`apply_overrides`            values set as Hydra sets them, without its reading every YAML again for each job
`BasicSweeper`               the sweeper that `CheckedSweeper` derives from, and whose place it takes
`Hydra`                      the loader of YAMLs, which completion asks without running a job
`create_config_search_path`  where that loader looks, before --config-dir is put in its place
"""

from __future__ import annotations

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path, get_args_parser
from hydra.core.plugins import Plugins

# Hydra's first look for plug-ins loads their modules anew: a class imported before it would be another one
# than Hydra's.
Plugins.instance()
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper  # noqa: E402

__all__ = ["BasicSweeper", "Hydra", "apply_overrides", "create_config_search_path", "get_args_parser"]

apply_overrides = ConfigLoaderImpl._apply_overrides_to_config
