# `make` alone lists the targets. Everything runs in .venv, which `make setup` fills from requirements.lock.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python -m ltrbench
DATA := $(or $(LTRBENCH_DATA),data)
# Threads that wait must not spin, or backends with different runtimes slow each other down.
export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup demo walkthrough test test-explore test-nojit lint format lock docs bench fuzz results reproduce screenshot ui clean

help: ## this list
	@awk -F':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/installed ## create .venv with the locked versions and this checkout in it

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ltrbench needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Name one: make setup PYTHON=python3.11"; exit 1; }
	@[ "$$(uname)" != Linux ] || $(PYTHON) -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null || \
	  { echo "LightGBM needs libgomp.so.1, which is not here. Install it: sudo apt-get install libgomp1 (Debian, Ubuntu) or sudo dnf install libgomp (Fedora)"; exit 1; }
	@echo "installing into .venv (about 1.8 GB; some minutes the first time)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup ## compare native, LightGBM and XGBoost on the built-in synthetic data
	$(RUN) model=native,lightgbm,xgboost -m

walkthrough: setup ## LambdaMART on ten documents, step by step, in numbers of the engine's own
	$(RUN) walkthrough

# A file's tests stay together, because they share what they prepare. Each process trains, so that more would be
# in each other's way.
PARALLEL = --numprocesses=logical --maxprocesses=4 --dist=loadfile

test: setup ## the whole test suite
	$(BIN)/python -m pytest $(PARALLEL)

test-explore: setup ## the property tests, on examples that no run has tried yet
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest $(PARALLEL) -m hypothesis

test-nojit: setup ## the kernels' tests, uncompiled, so that they can be stepped through
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/native

lint: setup ## style, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## put the code into the one format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: setup ## write requirements.lock anew from pyproject.toml's ranges
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --upgrade --quiet --output-file requirements.lock

docs: setup ## the documentation, into build/docs; fails on a broken link or a stale snippet
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	$(BIN)/python tests/browser.py build/docs/images --optional
	$(BIN)/python -m pytest docs README.md tests/package/test_docs.py -k "not site"

bench: setup ## speed and memory of the engine, the evaluator (as ratios against the libraries) and the statistics; hours
	$(BIN)/python tests/bench/bench_metrics.py
	$(BIN)/python tests/bench/bench_statistics.py
	$(BIN)/python tests/bench/bench_check.py
	$(BIN)/python tests/bench/bench_compare.py
	$(BIN)/python tests/bench/bench_compare.py --output
	$(BIN)/python tests/bench/bench_predict.py
	$(BIN)/python tests/bench/bench_scaling.py
	$(BIN)/python tests/bench/bench_memory.py
	$(BIN)/python tests/bench/bench_fit.py

fuzz: setup ## seeded mutations of models and run folders; minutes
	$(BIN)/python tests/fuzz/fuzz_models.py --seed 1 --count 5000
	$(BIN)/python tests/fuzz/fuzz_runs.py --seed 1 --count 5000

STUDIES = smoke mq2008 mq2007 clueweb09
# Where a study's data lies below $(DATA); nothing for one that needs none.
FOLDER_mq2008 = MQ2008
FOLDER_mq2007 = MQ2007
FOLDER_clueweb09 = ClueWeb09

results: $(STUDIES:%=results-%) results-parity results-native_best results-calibration results-calibration_models ## rerun the committed studies and rewrite results/
	$(BIN)/python docs/leaderboard.py

reproduce: $(STUDIES:%=reproduce-%) ## rerun the committed studies elsewhere, and fail where a metric differs

# A study on real data is skipped, with the reason, where the data is not there.
results-%: setup
	@if [ -z "$(FOLDER_$*)" ] || [ -d "$(DATA)/$(FOLDER_$*)" ]; then $(MAKE) --no-print-directory study-$*; else \
	  echo "results/$* skipped: no $(FOLDER_$*) under $(DATA); the README says how to get it"; fi

reproduce-%: setup
	@if [ -z "$(FOLDER_$*)" ] || [ -d "$(DATA)/$(FOLDER_$*)" ]; then $(MAKE) --no-print-directory rerun-$*; else \
	  echo "results/$* not reproduced: no $(FOLDER_$*) under $(DATA); the README says how to get it"; fi

# Of lambdas and trees and not of runs: it writes its table itself, with a row for each thing that is not there.
results-parity: setup
	$(RUN) experiment=parity

# Whether tests reject and intervals cover as often as they say: needs no data; about ten minutes.
results-calibration: setup
	$(RUN) experiment=calibration

# How often methods that do not differ are claimed to, by thousands of small models; about half an hour. It writes its
# table itself, with a row for data that is not there.
results-calibration_models: setup
	$(RUN) experiment=calibration_models

# The search that conf/model/native_best.yaml was taken from; about five minutes.
results-native_best: setup
	@if [ -d "$(DATA)/MQ2007" ] && [ -d "$(DATA)/MQ2008" ]; then $(RUN) experiment=native_best; else \
	  echo "results/native_best skipped: no MQ2007 and MQ2008 under $(DATA); the README says how to get them"; fi

study-%: setup
	rm -rf build/results/$*
	$(RUN) experiment=$* hydra.sweep.dir=build/results/$*
	rm -rf results/$*
	$(RUN) compare build/results/$* --output results/$*

# In a folder of its own, so that nothing of it is taken for a run of the user's.
rerun-%: setup
	rm -rf build/reproduce/$*
	mkdir -p build/reproduce/$*
	cd build/reproduce/$* && LTRBENCH_DATA="$(abspath $(DATA))" $(abspath $(BIN))/python -m ltrbench experiment=$*
	$(RUN) reproduce results/$* build/reproduce/$*

screenshot: setup ## write the screenshots and the tutorial's output anew; needs Chromium and data/lightgbm-example
	$(BIN)/python tests/browser.py docs/images
	$(BIN)/python -m docs.transcript docs/tutorial.md

ui: setup ## the MLflow UI on the runs, at http://127.0.0.1:5000
	$(RUN) ui

clean: ## remove .venv, caches and builds, but no run, no data and no result
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
