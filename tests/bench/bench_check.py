"""Benchmark of the check of a sweep's jobs before training: CPU time per job, next to Hydra's composition.

    python tests/bench/bench_check.py [--jobs 200]

The target is at most 25 ms per job. CPU time is used because other programs hardly affect it.
"""

from __future__ import annotations

import time

from bench_jobs import options
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from ltrbench.cli.launch import Composer, check_keys
from ltrbench.config import build_experiment, build_tracker, register_schema, resolved
from ltrbench.folders import conf_dir
from ltrbench.runs.spec import RunSpec

MODELS = ("native", "lightgbm", "xgboost", "random")


def main() -> None:
    count = options(__doc__, jobs=200).jobs

    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", [], RunMode.MULTIRUN)

        def check(composer: Composer, job: list[str]) -> None:
            config, choices = composer.composed(job)
            check_keys(config, master.hydra)
            settings = resolved(config)
            build_experiment(RunSpec(settings=settings, choices=choices, overrides=job))
            build_tracker(settings)

        sweeps = {
            "4 models x seeds": [
                [f"model={model}", f"seed={seed}"]
                for seed in range(count // 4)
                for model in MODELS
            ],
            "num_leaves of native": [
                ["model=native", f"params.num_leaves={leaves}"]
                for leaves in range(2, count + 2)
            ],
        }
        for model in MODELS:
            check(Composer(loader, master), [f"model={model}"])  # imports the backend
        for name, jobs in sweeps.items():
            composer = Composer(loader, master)
            began = time.process_time()
            for job in jobs:
                check(composer, job)
            checked = time.process_time()
            for job in jobs[:: max(len(jobs) // 10, 1)]:
                loader.load_sweep_config(master, job)
            composed = (time.process_time() - checked) / len(
                jobs[:: max(len(jobs) // 10, 1)]
            )
            each = (checked - began) / len(jobs)
            print(
                f"{name}: {1e3 * each:.1f} ms per job; Hydra's composition: {1e3 * composed:.0f} ms"
            )


if __name__ == "__main__":
    main()
