# `make` without a target lists the targets. All targets use .venv. `make setup` installs requirements.lock in it: what the
# comparison of models needs. Targets of developers add the rest by themselves, from requirements-dev.lock.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check install
# Installs a lock, without the packages' byte code.
define install
@echo "installing $(1) into .venv; takes about a minute the first time"
@$(PIP) --no-compile --require-hashes --requirement $(1)
endef
# Byte-compiling on all cores, without the packages' own tests, takes half of pip's time and less space.
BYTE_COMPILE = $(BIN)/python -m compileall -q -j 0 -x '/tests/' .venv/lib
SIZE = @echo "installed: .venv has $$(du -sm .venv | cut -f1) MB"
# Compiles what the first command needs into the cache of this checkout, by a run on little data. If it fails, its output
# is shown, and the first command tries it again.
COMPILE = folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && cd $$folder && \
  { PYTHONPATH= $(abspath $(BIN))/python -m ltrbench model=native,random data.num_queries=30 tracking=none \
    hydra.sweep.dir=sweep -m >log 2>&1 || \
    { cat log; echo "the engine was not compiled"; }; }
RUN := $(BIN)/python -m ltrbench
DATA := $(or $(LTRBENCH_DATA),data)
# Waiting threads must not spin, because backends with different runtimes would slow each other down.
export OMP_WAIT_POLICY := PASSIVE
# Tests and sweeps start many processes, each of which would compile the Python code anew without the byte code.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup dev demo walkthrough test test-fast test-explore test-nojit lint size format settings pages lock docs wheel bench bench-full results reproduce protocols screenshot ui clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/installed ## create .venv with the locked versions and this checkout in it
dev: .venv/dev-installed ## add CatBoost, ONNX, Dask, and what tests, lint, docs and studies need

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ltrbench needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Name one: make setup PYTHON=python3.11"; exit 1; }
	@[ "$$(uname)" != Linux ] || $(PYTHON) -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || \
	  { echo "LightGBM needs libgomp.so.1, which is not installed. Install it with sudo apt-get install libgomp1 (Debian, Ubuntu) or sudo dnf install libgomp (Fedora)"; exit 1; }
	@$(PYTHON) -m venv .venv
	$(call install,requirements.lock)
	@$(PIP) --no-deps --no-build-isolation --editable .
	@echo "compiling the engine and the packages for this machine; takes about half a minute"
	@( $(COMPILE) ) & $(BYTE_COMPILE); status=$$?; wait; exit $$status
	$(SIZE)
	@touch $@

.venv/dev-installed: requirements-dev.lock | .venv/installed
	$(call install,requirements-dev.lock)
	@$(BYTE_COMPILE)
	$(SIZE)
	@touch $@

demo: setup ## install, and compare native and LightGBM on the built-in synthetic data
	$(RUN) model=native,lightgbm -m

walkthrough: setup ## explain LambdaMART step by step on ten documents, with numbers from the native engine
	$(RUN) walkthrough

# The tests of a file run in one process, because they share fixtures; tests/conftest.py orders the files. Each process
# trains models, so more than four processes would slow each other down.
PARALLEL = --numprocesses=logical --maxprocesses=4 --dist=loadfile --no-loadscope-reorder
# Compiles the engine once, on two cores. Otherwise each process of the suite would compile it.
WARM_UP = $(BIN)/python -c 'from ltrbench.rankers.native import NativeRanker; \
  ranker = NativeRanker(); ranker.warm_up(); ranker.warm_up_sparse()'

test: dev ## run the whole test suite
	$(WARM_UP)
	$(BIN)/python -m pytest $(PARALLEL)

test-fast: dev ## run the test suite without browser, installation, long fits and documentation
	$(WARM_UP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not browser and not installation"

test-explore: dev ## run the property tests on new random examples
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest $(PARALLEL) -m hypothesis

test-nojit: dev ## run the kernel tests uncompiled, to step through them in a debugger
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/native tests/data/test_letor_kernels.py

lint: dev ## check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/density.py

size: dev ## print the size and density of the code by folder, and the words of the documentation
	@PYTHONPATH=. $(BIN)/python tests/size.py

format: dev ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

settings: dev ## write the settings of each backend into its YAML, from the fields of its class, and the pages
	$(BIN)/python -m docs.settings
	$(BIN)/python -m docs.macros

pages: dev ## write the tables of the pages anew, from conf/, the code and results/
	$(BIN)/python -m docs.macros

# requirements.lock is a part of requirements-dev.lock, with the same versions.
LOCK = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet
lock: dev ## update both locks from the version ranges of pyproject.toml
	$(LOCK) --extra dev --upgrade --output-file requirements-dev.lock
	$(LOCK) --extra standard --extra build --upgrade --constraint requirements-dev.lock --output-file requirements.lock

docs: pages ## build the documentation in build/docs; fails on a broken link or an outdated snippet
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python tests/browser.py build/docs/images --optional
	$(BIN)/python -m pytest docs README.md tests/package/test_docs.py -k "not site"

bench: dev ## print one table of times and memory, as ratios to the libraries; less than 30 minutes
	$(BIN)/python tests/bench/bench_all.py

bench-full: dev ## benchmark everything in all sizes, with statistics, sweeps, serving and data at full size; hours
	for name in read metrics statistics objectives start check compare sweep predict networks serve scaling memory fit limits clicks distributed; do \
	  $(BIN)/python tests/bench/bench_$$name.py || exit 1; done
	$(BIN)/python tests/bench/bench_compare.py --output
	$(BIN)/python tests/bench/bench_auto.py --repetitions 1
	$(BIN)/python tests/bench/bench_full_size.py --documents 1000000
	$(BIN)/python tests/bench/bench_full_size.py
	$(BIN)/python tests/bench/bench_full_size.py --documents 10454629 --features 220 --trees 10
	$(BIN)/python tests/bench/bench_rehearsal.py

STUDIES = smoke mq2008 mq2007 clueweb09 tuned native_best
# Not reproduced: searches of about half an hour, and click logs, which are simulated. Their synthetic versions,
# results-losses_synthetic and results-families_synthetic, are not committed.
SEARCHES = losses families clicks
# Studies that are no sweeps. They need no data, but have a row for real data if it is available.
SCRIPTS = parity calibration calibration_models click_estimators
# Published protocols on large data sets, many hours each; not reproduced.
PROTOCOLS = $(BASELINES:%=ltr_baseline_%) lightgbm_docs
BASELINES = mslr_web30k mslr_web10k yahoo_set1 istella_s istella
# Folders of the data of each study below $(DATA); not set for a study without data files.
FOLDERS_mq2008 = MQ2008
FOLDERS_mq2007 = MQ2007
FOLDERS_clueweb09 = ClueWeb09
FOLDERS_tuned = MQ2007 MQ2008
FOLDERS_native_best = MQ2007 MQ2008
FOLDERS_losses = MQ2007 MQ2008
FOLDERS_families = MQ2007 MQ2008
FOLDERS_clicks = MQ2008
FOLDERS_ltr_baseline_mslr_web30k = MSLR-WEB30K
FOLDERS_ltr_baseline_mslr_web10k = MSLR-WEB10K
FOLDERS_ltr_baseline_yahoo_set1 = ltrc_yahoo
FOLDERS_ltr_baseline_istella_s = istella-s-letor
FOLDERS_ltr_baseline_istella = istella-letor
FOLDERS_lightgbm_docs = MSLR-WEB30K
ABSENT = $(strip $(foreach folder,$(FOLDERS_$*),$(if $(wildcard $(DATA)/$(folder)),,$(folder))))
# The experiments whose runs are compared in one table; not set for a study of one experiment.
EXPERIMENTS_tuned = untuned tuned
EXPERIMENTS_native_best = untuned native_best
EXPERIMENTS = $(or $(EXPERIMENTS_$*),$*)

results: $(STUDIES:%=results-%) $(SEARCHES:%=results-%) $(SCRIPTS:%=results-%) pages ## rerun the committed studies and rewrite results/; each of its targets, such as results-smoke, takes less than an hour

reproduce: $(STUDIES:%=reproduce-%) ## rerun the committed studies in build/, and fail if a metric differs

protocols: $(PROTOCOLS:%=results-%) ## run the published protocols on the large data sets that are available; many hours

# A study on real data is skipped with a message if the data is not available.
results-%: dev
	@if [ -z "$(ABSENT)" ]; then $(MAKE) --no-print-directory study-$*; else \
	  echo "results/$* skipped: no $(ABSENT) under $(DATA); docs/lookup/results.md explains how to get it"; fi

reproduce-%: dev
	@if [ -z "$(ABSENT)" ]; then $(MAKE) --no-print-directory rerun-$*; else \
	  echo "results/$* not reproduced: no $(ABSENT) under $(DATA); docs/lookup/results.md explains how to get it"; fi

# Runs a study that writes its own table, such as the parity of presets, or error rates of tests.
$(SCRIPTS:%=results-%): results-%: dev
	$(RUN) experiment=$*

# Keeps the runs of a study that was stopped, unless a commit was made since, so that its target continues it.
fresh = @commit=$$(git rev-parse HEAD); stamp=build/results/$(1).commit; \
  [ "$$(cat $$stamp 2>/dev/null)" = "$$commit" ] || \
  { rm -rf build/results/$(1) && mkdir -p build/results && echo $$commit > $$stamp; }

# One experiment for all of its data sets.
study-ltr_baseline_%: dev
	$(call fresh,ltr_baseline_$*)
	$(RUN) experiment=ltr_baseline data=$* hydra.sweep.dir=build/results/ltr_baseline_$*
	rm -rf results/ltr_baseline_$*
	$(RUN) compare build/results/ltr_baseline_$* --output results/ltr_baseline_$*

# Searches train two models at a time, with a thread each.
PAIRS = executor=processes num_threads=1
# A study of several commands is compared once, by `compare`.
UNSEEN = looks=0

# Rows whose settings the others do not have are trained by commands of their own.
LOSSES = $(RUN) experiment=losses hydra.sweep.dir=build/results/losses $(PAIRS) $(UNSEEN)
study-losses: dev
	$(call fresh,losses)
	$(LOSSES)
	$(LOSSES) model/objective=approx_ndcg model.objective.temperature=0.1
	$(LOSSES) model/objective=lambdaloss model.objective.variant=allrank model.objective.weighting=ndcg1,ndcg2++
	$(LOSSES) model/objective=lambdaloss model.objective.variant=rax model.objective.weighting=dcg2
	$(LOSSES) model/objective=yetirank model.objective.mode=DCG,NDCG,MRR,MAP
	$(LOSSES) model=catboost model/objective=none model.loss=LambdaMart
	rm -rf results/losses
	$(RUN) compare build/results/losses --output results/losses

# The times of the chosen models are measured afterwards, one at a time.
study-families study-families_synthetic: study-%: dev
	$(call fresh,$*)
	$(RUN) experiment=$* hydra.sweep.dir=build/results/$* $(PAIRS) $(UNSEEN)
	$(RUN) resume build/results/$* --timing
	$(RUN) ensemble build/results/$*
	rm -rf results/$*
	$(RUN) compare build/results/$* --output results/$*

study-clicks: dev
	$(call fresh,clicks)
	$(RUN) experiment=clicks hydra.sweep.dir=build/results/clicks
	find results/clicks -type f ! -name summary.py -delete
	$(RUN) compare build/results/clicks --metric ndcg@10 --baseline 'native debias=none' --output results/clicks
	find results/clicks -name '*.png' -delete
	$(BIN)/python -m results.clicks.summary

study-%: dev
	$(call fresh,$*)
	set -e; for experiment in $(EXPERIMENTS); do \
	  $(RUN) experiment=$$experiment hydra.sweep.dir=build/results/$* $(if $(SEARCHED),$(PAIRS)) $(UNSEEN); done
	rm -rf results/$*
	$(RUN) compare build/results/$* --output results/$*

SEARCHED = $(filter $*,tuned native_best losses_synthetic)

# In a separate folder, so that its runs do not mix with runs of the user.
rerun-%: dev
	rm -rf build/reproduce/$*
	mkdir -p build/reproduce/$*
	cd build/reproduce/$* && set -e && for experiment in $(EXPERIMENTS); do \
	  LTRBENCH_DATA="$(abspath $(DATA))" $(abspath $(BIN))/python -m ltrbench experiment=$$experiment $(if $(SEARCHED),$(PAIRS)); done
	$(RUN) reproduce results/$* build/reproduce/$*

screenshot: dev ## write the screenshots and the output of two tutorials anew; needs Chromium and data/lightgbm-example
	$(BIN)/python tests/browser.py docs/images
	$(BIN)/python -m docs.transcript docs/tutorial.md docs/tasks/shop.md

wheel: setup ## build the wheel in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build --target wheel

ui: setup ## open the MLflow UI on the runs, at http://127.0.0.1:5000
	$(RUN) ui

clean: ## remove .venv, caches and builds; keep runs, data and results
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
