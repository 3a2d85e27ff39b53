# Everything a person types. `make demo` and `make test` each work alone on a fresh clone.
# Needs python3.11, make and git; never a compiler, never root. PYTHON=... names another interpreter.

PYTHON ?= python3.11
VENV := .venv
FRAMEWORKS := .venv-tf
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
WORKERS ?= 2
REQUIREMENTS := requirements.lock

export OMP_NUM_THREADS := 1
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup frameworks engines system assets demo test lint test-slow test-engines bench references results docs paper lock docker clean distclean

help:
	@echo "make setup      make .venv with the pinned packages (idempotent)"
	@echo "make frameworks make .venv-tf: TF-Agents and Stable-Baselines3 beside a2perf"
	@echo "make demo       evaluate, train and report on quadruped locomotion (runs/demo/report)"
	@echo "make test       lint, types, layers and the test suite"
	@echo "make test-slow  the tests that take minutes (fresh environments, lower bounds, baselines that learn)"
	@echo "make test-engines  the tests that need Docker, Slurm, Ray, TensorFlow, Stable-Baselines3 or LaTeX; installs them (root)"
	@echo "make bench      a2perf's own speed and cost"
	@echo "make references measure the protocol's reference scores again and compare them"
	@echo "make results    record the shipped results again (results/recorded)"
	@echo "make paper      the technical report and its leaderboard, from the shipped results (build/report)"
	@echo "make docs       the documentation site (build/docs/index.html), without network"
	@echo "make system     optional system packages (root on Debian)"
	@echo "make docker     build the images of the domains (needs a Docker engine)"
	@echo "make lock       resolve requirements.lock anew"
	@echo "make clean      remove what was built or run; distclean removes .venv too"

setup: $(INSTALLED) assets $(COMPILED)
	@$(BIN)/a2perf doctor --missing
	@echo "setup: next, \`make demo\` (4 minutes) or \`make test\`"

# The stamp is written last: a set-up that was cut off starts again. System packages install beside the Python packages.
# uv is several times faster than pip; where the index has none, pip installs the same pinned files. On a terminal uv
# shows what it downloads.
$(INSTALLED): $(REQUIREMENTS) pyproject.toml setup.py
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on PATH: install CPython 3.11, or name it with PYTHON=..."; exit 2; }
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info[:2] != (3, 11) or sys.implementation.name != 'cpython')" 2>/dev/null || \
		{ echo "$(PYTHON) is not CPython 3.11, which the pinned packages need (PyBullet has no wheels for newer ones): name one with PYTHON=..., or use pip install 'a2perf[all]', which leaves PyBullet out"; exit 2; }
	@set -e; \
	$(MAKE) --no-print-directory system & \
	test -x $(BIN)/python || { echo "setup 1/3: creating $(VENV)"; $(PYTHON) -m venv $(VENV); }; \
	test -x $(BIN)/uv || $(BIN)/python -m pip install -qq uv || echo "setup: the index has no uv; pip installs instead"; \
	echo "setup 2/3: downloading and installing the pinned packages (half a minute to two minutes)"; \
	if test -t 2; then quiet=; else quiet=--quiet; fi; \
	if test -x $(BIN)/uv; then \
		export VIRTUAL_ENV="$(CURDIR)/$(VENV)"; \
		$(BIN)/uv pip install $$quiet --require-hashes --requirement $(REQUIREMENTS); \
		$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .; \
	else \
		$(BIN)/python -m pip install $$quiet --require-hashes --requirement $(REQUIREMENTS); \
		$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .; \
	fi; \
	wait
	@touch $(INSTALLED)

# TF-Agents pins what nothing current goes with, so it has a Python of its own (docs/reference/adapters.md) and needs uv,
# which alone can override pins. The index has torch with CUDA only (5 GB), so a wheel where pip is told to look goes first.
TF_EXAMPLE := examples/tf_agents_ppo
FRAMEWORKS_INSTALLED := $(FRAMEWORKS)/.installed
frameworks: $(FRAMEWORKS_INSTALLED)

$(FRAMEWORKS_INSTALLED): $(TF_EXAMPLE)/requirements.txt $(TF_EXAMPLE)/overrides.txt pyproject.toml | $(INSTALLED)
	@test -x $(BIN)/uv || { echo "frameworks: no uv in $(VENV); only it can override what TF-Agents pins"; exit 2; }
	@test -x $(FRAMEWORKS)/bin/python || $(BIN)/uv venv --quiet --python $(PYTHON) $(FRAMEWORKS)
	@echo "frameworks: installing TF-Agents beside a2perf (2 GB)"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --editable '.[all,dev]' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt
	@test -z "$(PIP_FIND_LINKS)" || VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --no-deps \
		--no-index --find-links "$(PIP_FIND_LINKS)" torch || echo "frameworks: torch comes from the index"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --editable '.[sb3]' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt \
		|| echo "frameworks: going on without Stable-Baselines3"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --editable '.[mujoco,ray,slurm,wandb]' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt \
		|| echo "frameworks: Ray and Weights & Biases are not installed"
	@touch $(FRAMEWORKS_INSTALLED)

# Compiling takes 10 to 40 s, once; what is compiled is kept beside the sources.
$(COMPILED): $(INSTALLED) $(wildcard a2perf/domains/quadruped_locomotion/*.py a2perf/domains/circuit_training/*.py)
	@echo "setup 3/3: compiling the kernels of the environments (10 to 40 s, once)"
	@$(BIN)/python -c "import gymnasium; [gymnasium.make(name).reset(seed=0) for name in ('QuadrupedLocomotion-SyntheticTrot-v0', 'CircuitTraining-ToyMacro-v0')]" \
		|| echo "setup: they will be compiled on first use"
	@touch $(COMPILED)

# Best effort: tests and demo say what they leave out without these files.
assets: $(INSTALLED)
	@$(BIN)/a2perf data fetch --quiet quadruped_locomotion || echo "setup: going on without the motion clips and policies"

SYSTEM_PACKAGES := chromium chromium-driver bubblewrap fonts-dejavu-core
# Optional, hence quiet and never fatal; setup calls it, so it does nothing without root, without apt or when all is there.
system:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v bwrap >/dev/null; then :; \
	elif test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "system: installing $(SYSTEM_PACKAGES)"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(SYSTEM_PACKAGES); } \
			>/dev/null 2>&1 || echo "system: apt could not install them; going on without"; \
	fi

# Nothing is compiled or fetched before the first number: the demo does both when it needs them.
demo: $(INSTALLED)
	@$(BIN)/a2perf demo

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Golden values, where this checkout has them beside it.
test test-slow: export A2PERF_DATA_DIR ?= $(abspath $(wildcard ../shared/data))

test: setup lint
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# What needs a framework runs in the Python that has it.
test-slow: setup
	@$(BIN)/python -m pytest -m slow
	@if $(MAKE) --no-print-directory frameworks; then A2PERF_ONLY=tf_agents,sb3 $(FRAMEWORKS)/bin/python -m pytest; \
	else echo "test-slow: SKIPPED the groups tf_agents and sb3: $(FRAMEWORKS) could not be made, see above"; fi

# What needs an engine or a framework, with nothing skipped. Programs come from Debian by name, which takes root.
ENGINE_PACKAGES := docker.io slurmctld slurmd munge texlive-latex-base texlive-latex-recommended poppler-utils
engines:
	@echo "engines: installing $(ENGINE_PACKAGES)"
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		$(ENGINE_PACKAGES) >/dev/null

ENGINE_GROUPS := docker,slurm,latex
FRAMEWORK_GROUPS := tf_agents,sb3,ray,wandb
test-engines: export A2PERF_DATA_DIR ?= $(abspath $(wildcard ../shared/data))
test-engines: setup engines frameworks
	@A2PERF_ONLY=$(ENGINE_GROUPS) A2PERF_REQUIRE=$(ENGINE_GROUPS) $(BIN)/python -m pytest -n $(WORKERS) -m "not slow"
	@A2PERF_ONLY=$(FRAMEWORK_GROUPS) A2PERF_REQUIRE=$(FRAMEWORK_GROUPS) \
		$(FRAMEWORKS)/bin/python -m pytest -n $(WORKERS) -m "not slow"

bench: $(INSTALLED)
	@for script in perf/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# About half an hour of one processor; the designs and clips that are not shipped have to be there (a2perf data fetch).
references: $(INSTALLED)
	@$(BIN)/python results/references.py

# About a quarter of an hour; finished runs are kept in runs/results, so it goes on where it was cut off.
results: setup
	@$(BIN)/python results/record.py

# Nothing is run: every number comes from results/recorded. Under a minute; the PDF needs pdflatex.
paper: export A2PERF_DATA_DIR ?= $(abspath $(wildcard ../shared/data))
paper: $(INSTALLED)
	@$(BIN)/python docs/report/make_report.py -o build/report

# Under a minute, most of it for the videos. Pages without what this machine lacks say so.
docs: export A2PERF_DATA_DIR ?= $(abspath $(wildcard ../shared/data))
docs: $(INSTALLED)
	@$(BIN)/python -m docs.building

# Hashes of every file of a version, so that the lock serves other processors; no header and no index addresses, so that
# it serves other indexes. torch and TensorFlow stay out: participants bring them.
lock:
	@test -x $(BIN)/uv || { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip install --quiet uv; }
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --extra all --extra mujoco --extra slurm --extra dev --output-file $(REQUIREMENTS) pyproject.toml

docker:
	@docker/build.sh

clean:
	rm -rf build dist runs *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

distclean: clean
	rm -rf $(VENV) $(FRAMEWORKS)
