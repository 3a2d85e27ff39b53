# The commands of this repository; `make` lists them. `make demo` and `make test` each work alone on a fresh clone.
# Needs python3.11, make and git, but neither a compiler nor root. PYTHON=... names another interpreter.

PYTHON ?= python3.11
VENV := .venv
FRAMEWORKS := .venv-tf
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
# one more than processors: many tests wait for processes that they started
WORKERS ?= $(shell expr $$(nproc) + 1)
REQUIREMENTS := requirements.lock
# compat: the checkout is on the path, so a folder `a2perf` (this checkout, seen from its parent) does not hide the package
EDITABLE := --config-settings editable_mode=compat --editable

export OMP_NUM_THREADS := 1
export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some images forbid bytecode: every process of a test then compiles what it imports, which doubles the time of a start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup packages test-docs test-no-engines test-packages frameworks openenv environments test-environments engines system assets golden demo test test-attacks lint test-slow test-engines test-extras test-platforms test-arm64 test-newer-python test-pybullet coverage \
	bench perf-smoke references results reproduce docs lock docker hooks release clean distclean

help:
	@echo "Usage: make TARGET"
	@echo
	@echo "Start"
	@echo "  setup              create .venv with the pinned packages; rerun it at any time"
	@echo "  packages           install the distributions of packages/ beside the core"
	@echo "  demo               evaluate, train and report on quadruped locomotion (runs/demo/report)"
	@echo "  docs               build the documentation site (build/docs/index.html)"
	@echo
	@echo "Test"
	@echo "  lint               formatting, types and import contracts"
	@echo "  test               lint and the core's tests"
	@echo "  test-attacks       more of the core's tests: attacks, kills, accounts, other systems, documents"
	@echo "  test-packages      types, import contracts and tests of the distributions"
	@echo "  test-no-engines    the platform's tests in a copy without the three domains"
	@echo "  test-docs          build the documentation site; check its links, search and accessibility in a browser"
	@echo "  test-slow          tests that take minutes: fresh environments, lower bounds, baselines that learn"
	@echo "  test-engines       tests that need Docker, Slurm, TensorFlow, Ray or LaTeX; installs them (root)"
	@echo "  test-environments  play and reproduce environments of other packages"
	@echo "  test-newer-python  the test suite on Python 3.12 and 3.13, where the robot is simulated by MuJoCo"
	@echo "  test-pybullet      compile PyBullet on Python 3.12 and 3.13, and play the recorded episodes"
	@echo "  test-extras        install every extra after the others, and step an environment of each domain"
	@echo "  test-platforms     resolve the package for other systems, processors and Pythons, from wheels alone"
	@echo "  test-arm64         tests in an emulated ARM64 system (root, debootstrap, QEMU 10)"
	@echo "  coverage           line coverage of the fast tests (build/coverage/index.html)"
	@echo "  golden             fetch files of others that some golden tests read"
	@echo
	@echo "Measure"
	@echo "  bench              speed and cost of a2perf itself"
	@echo "  perf-smoke         check that no hot path has become several times slower"
	@echo "  references         measure the protocol's reference scores again and compare them"
	@echo "  results            record the shipped results again (results/recorded)"
	@echo "  reproduce          repeat the evaluations of the shipped results and list the verdicts (hours)"
	@echo
	@echo "Maintain"
	@echo "  hooks              install the pre-commit hooks"
	@echo "  lock               resolve requirements.lock again"
	@echo "  release            check, build and tag VERSION=X.Y.Z; DRY_RUN=1 only shows what would happen"
	@echo "  system             install optional system packages (root on Debian)"
	@echo "  frameworks         create .venv-tf: TF-Agents and Stable-Baselines3 beside a2perf"
	@echo "  environments       create .venv-environments: packages with environments of others, for their tests"
	@echo "  openenv            create .venv-openenv: the client of OpenEnv, for its tests"
	@echo "  docker             build the images of the domains (needs a Docker engine)"
	@echo "  clean, distclean   remove what was built or run; distclean removes .venv too"

setup: $(INSTALLED) assets $(COMPILED)
	@$(BIN)/a2perf doctor --missing
	@echo "setup: done. Next: \`make demo\` (4 minutes) or \`make test\`"

# The stamp is written last, because an interrupted set-up must start again. System packages install at the same time.
# uv is several times faster than pip; if the index has no uv, pip installs the same pinned files.
$(INSTALLED): $(REQUIREMENTS) pyproject.toml setup.py
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on PATH: install CPython 3.11, or name it with PYTHON=..."; exit 2; }
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info[:2] != (3, 11) or sys.implementation.name != 'cpython')" 2>/dev/null || \
		{ echo "$(PYTHON) is not CPython 3.11, which the pinned packages need (PyBullet has no wheels for newer ones): name one with PYTHON=..., or use pip install -e '.[all]', which leaves PyBullet out"; exit 2; }
	@set -e; \
	$(MAKE) --no-print-directory system & \
	test -x $(BIN)/python || { echo "setup 1/3: creating $(VENV)"; $(PYTHON) -m venv $(VENV); }; \
	test -x $(BIN)/uv || $(BIN)/python -m pip install -qq uv || echo "setup: the index has no uv; pip installs instead"; \
	echo "setup 2/3: downloading and installing the pinned packages (half a minute to two minutes)"; \
	if test -t 2; then quiet=; else quiet=--quiet; fi; \
	if test -x $(BIN)/uv; then \
		export VIRTUAL_ENV="$(CURDIR)/$(VENV)"; \
		$(BIN)/uv pip install $$quiet --require-hashes --requirement $(REQUIREMENTS); \
		$(BIN)/uv pip install --quiet --no-deps --no-build-isolation $(EDITABLE) .; \
	else \
		$(BIN)/python -m pip install $$quiet --require-hashes --requirement $(REQUIREMENTS); \
		$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(EDITABLE) .; \
	fi; \
	wait
	@touch $(INSTALLED)

# TF-Agents pins packages that conflict with current ones, so it gets a separate environment (docs/reference/adapters.md).
# Only uv can override pins. The index has torch with CUDA only (5 GB), so a wheel from PIP_FIND_LINKS is tried first.
TF_EXAMPLE := packages/baselines/examples/tf_agents_ppo
FRAMEWORKS_INSTALLED := $(FRAMEWORKS)/.installed
frameworks: $(FRAMEWORKS_INSTALLED)

$(FRAMEWORKS_INSTALLED): $(TF_EXAMPLE)/requirements.txt $(TF_EXAMPLE)/overrides.txt pyproject.toml | $(INSTALLED)
	@test -x $(BIN)/uv || { echo "frameworks: uv is missing in $(VENV), and only uv can override the pins of TF-Agents"; exit 2; }
	@test -x $(FRAMEWORKS)/bin/python || $(BIN)/uv venv --quiet --python $(PYTHON) $(FRAMEWORKS)
	@echo "frameworks: installing TF-Agents beside a2perf (2 GB)"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet $(EDITABLE) '.[all,dev]' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt
	@for name in baselines placement datasets; do VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --no-deps \
		$(EDITABLE) packages/$$name || exit 1; done
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet $(EDITABLE) 'packages/trackers[huggingface,mlflow,tensorboard]' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt
	@test -z "$(PIP_FIND_LINKS)" || VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet --no-deps \
		--no-index --find-links "$(PIP_FIND_LINKS)" torch || echo "frameworks: torch comes from the index"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet 'stable-baselines3>=2.7' \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt \
		|| echo "frameworks: continuing without Stable-Baselines3"
	@VIRTUAL_ENV="$(CURDIR)/$(FRAMEWORKS)" $(BIN)/uv pip install --quiet $(EDITABLE) '.[mujoco,ray,slurm]' wandb \
		--requirement $(TF_EXAMPLE)/requirements.txt --override $(TF_EXAMPLE)/overrides.txt \
		|| echo "frameworks: Ray and Weights & Biases are not installed"
	@touch $(FRAMEWORKS_INSTALLED)

# Numba keeps the compiled kernels beside the sources.
$(COMPILED): $(INSTALLED) $(wildcard a2perf/domains/quadruped_locomotion/*.py a2perf/domains/circuit_training/*.py)
	@echo "setup 3/3: compiling the kernels of the environments (10 to 40 s, once)"
	@$(BIN)/python -c "import a2perf, gymnasium; [gymnasium.make(name).reset(seed=0) for name in ('QuadrupedLocomotion-SyntheticTrot-v0', 'CircuitTraining-ToyMacro-v0')]" \
		|| echo "setup: could not compile them now; they are compiled on first use"
	@touch $(COMPILED)

# Best effort: without these files, tests are skipped and the demo uses generated motions.
assets: $(INSTALLED)
	@$(BIN)/a2perf data fetch quadruped_locomotion || echo "setup: continuing without the motion clips and policies"

SYSTEM_PACKAGES := chromium chromium-driver bubblewrap fonts-dejavu-core
# Optional, so it is quiet and never fatal. setup calls it: it does nothing without root, without apt, or if all is there.
system:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v bwrap >/dev/null; then :; \
	elif test "$$(id -u)" = 0 && command -v apt-get >/dev/null; then \
		echo "system: installing $(SYSTEM_PACKAGES)"; \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(SYSTEM_PACKAGES); } \
			>/dev/null 2>&1 || echo "system: apt could not install them; continuing without"; \
	fi

# The demo compiles and fetches only when it needs to, so the first number appears early.
demo: $(INSTALLED)
	@$(BIN)/a2perf demo

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_imports.py

# Files that are not ours to ship (Ariane); the tests that read them are skipped without.
golden: $(INSTALLED)
	@$(BIN)/python -m tests.golden.regenerate --fetch || echo "golden: continuing without the files of Ariane"

# What needs many processes per test is a second target, a fifth of the time.
APART := tests/attacks tests/platforms tests/launch/test_kill_points.py tests/submission/test_accounting.py \
	tests/domains/test_odd_environments.py tests/domains/test_foreign_package.py \
	tests/docs/test_notebooks.py tests/docs/test_readme.py tests/docs/test_code_blocks.py
test: setup lint
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not site" $(APART:%=--ignore=%)

test-attacks: setup
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not site" $(APART)

test-no-engines: setup
	@$(BIN)/python -m pytest -m slow tests/packaging/test_without_engines.py

# The distributions, each beside the core and none of them needed by it.
DISTRIBUTIONS := $(notdir $(patsubst %/pyproject.toml,%,$(wildcard packages/*/pyproject.toml)))
PACKAGES_INSTALLED := $(VENV)/.packages-installed
empty :=
space := $(empty) $(empty)
packages: $(PACKAGES_INSTALLED)

$(PACKAGES_INSTALLED): $(INSTALLED) packages/requirements.lock $(wildcard packages/*/pyproject.toml)
	@echo "packages: installing $(DISTRIBUTIONS)"
	@VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --require-hashes --requirement packages/requirements.lock
	@for name in $(DISTRIBUTIONS); do VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/uv pip install --quiet --no-deps \
		--no-build-isolation $(EDITABLE) packages/$$name || exit 1; done
	@$(BIN)/python -c "from a2perf_placement.compiling import compile_engine; compile_engine()" \
		|| echo "packages: could not compile the placement engine now; it is compiled on first use"
	@touch $(PACKAGES_INSTALLED)

test-packages: setup packages
	@MYPYPATH=$(subst $(space),:,$(DISTRIBUTIONS:%=packages/%/src)) $(BIN)/mypy $(DISTRIBUTIONS:%=-p a2perf_%)
	@$(BIN)/lint-imports --config packages/importlinter.toml
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" packages

# Drawn examples are drawn again here, and the tests of a framework run in the environment that has it.
test-slow: setup
	@$(BIN)/python -m pytest -m slow
	@$(BIN)/python -m pytest --hypothesis-profile search -m "not slow" $$(grep -rl "^@given" tests --include="test_*.py")
	@if $(MAKE) --no-print-directory frameworks; then A2PERF_ONLY=tf_agents,sb3 $(FRAMEWORKS)/bin/python -m pytest tests packages/baselines/tests packages/trackers; \
	else echo "test-slow: SKIPPED the groups tf_agents and sb3: $(FRAMEWORKS) could not be created, see above"; fi

# Environments of others. Fetch and Meta-World need MuJoCo 3.3.
OTHERS := .venv-environments
environments: $(INSTALLED)
	@test -x $(OTHERS)/bin/python || $(BIN)/uv venv --quiet --python $(PYTHON) $(OTHERS)
	@VIRTUAL_ENV="$(CURDIR)/$(OTHERS)" $(BIN)/uv pip install --quiet $(EDITABLE) '.[dev]' minigrid highway-env ale-py \
		gymnasium-robotics metaworld popgym panda-gym flappy-bird-gymnasium mo-gymnasium 'mujoco==3.3.*'

test-environments: environments
	@A2PERF_ONLY=environments A2PERF_REQUIRE=environments $(OTHERS)/bin/python -m pytest tests/domains/test_real_packages.py

# Tests of engines and frameworks; none may be skipped. The programs are Debian packages, so this needs root.
ENGINE_PACKAGES := docker.io slurmctld slurmd munge texlive-latex-base texlive-latex-recommended poppler-utils
engines:
	@echo "engines: installing $(ENGINE_PACKAGES)"
	@apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
		$(ENGINE_PACKAGES) >/dev/null

# The client of OpenEnv needs packages that conflict with ours.
OPENENV := .venv-openenv
openenv: $(INSTALLED)
	@test -x $(OPENENV)/bin/python || $(BIN)/uv venv --quiet --python $(PYTHON) $(OPENENV)
	@VIRTUAL_ENV="$(CURDIR)/$(OPENENV)" $(BIN)/uv pip install --quiet 'openenv==0.10.*' 'openenv-core==0.3.*'

ENGINE_GROUPS := docker,slurm,latex,openenv
FRAMEWORK_GROUPS := tf_agents,sb3,ray,wandb
test-engines: setup packages engines frameworks openenv
	@A2PERF_ONLY=$(ENGINE_GROUPS) A2PERF_REQUIRE=$(ENGINE_GROUPS) \
		$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" tests packages
	@A2PERF_ONLY=$(FRAMEWORK_GROUPS) A2PERF_REQUIRE=$(FRAMEWORK_GROUPS) \
		$(FRAMEWORKS)/bin/python -m pytest -n $(WORKERS) -m "not slow" tests packages/baselines/tests packages/trackers

# PyBullet has no wheel for Python 3.12 and later, and the lock is for 3.11: packages come unpinned. With pyenv, a command
# such as python3.12 answers only if PYENV_VERSION names its version.
NEWER_PYTHONS ?= 3.12 3.13
NEWER_TESTS ?= tests
NEWER := $(NEWER_PYTHONS:%=.venv-%/.installed)
.venv-3.%/.installed: pyproject.toml setup.py
	@echo "newer-python: installing .venv-3.$*"
	@PYENV_VERSION="$$(pyenv versions --bare 2>/dev/null | paste -sd:)" python3.$* -m venv .venv-3.$*
	@.venv-3.$*/bin/python -m pip install --quiet uv
	@VIRTUAL_ENV="$(CURDIR)/.venv-3.$*" .venv-3.$*/bin/uv pip install --quiet $(EDITABLE) '.[all,dev]'
	@touch $@

test-newer-python: $(NEWER)
	@set -e; for version in $(NEWER_PYTHONS); do \
		A2PERF_WITHOUT="$(A2PERF_WITHOUT),pybullet" A2PERF_REQUIRE=mujoco \
			.venv-$$version/bin/python -m pytest -n $(WORKERS) -m "not slow and not site" $(NEWER_TESTS); \
	done

# PyBullet is compiled from its sources (6 minutes of processor time and a C++ compiler, once per Python), and plays the recorded episodes.
test-pybullet: $(NEWER)
	@set -e; for version in $(NEWER_PYTHONS); do \
		export VIRTUAL_ENV="$(CURDIR)/.venv-$$version"; uv="$$VIRTUAL_ENV/bin/uv"; \
		"$$uv" pip install --quiet pybullet==3.2.7; \
		A2PERF_REQUIRE=pybullet "$$VIRTUAL_ENV/bin/python" -m pytest tests/domains/quadruped_locomotion; \
		"$$uv" pip uninstall --quiet pybullet; \
	done

# Each extra after the others, in one environment: every domain is imported, and environments of it step. A wheel of torch
# from PIP_FIND_LINKS is tried first, as above.
EXTRAS := .venv-extras
test-extras: $(INSTALLED)
	@rm -rf $(EXTRAS)
	@$(BIN)/uv venv --quiet --python $(PYTHON) $(EXTRAS)
	@test -z "$(PIP_FIND_LINKS)" || VIRTUAL_ENV="$(CURDIR)/$(EXTRAS)" $(BIN)/uv pip install --quiet --no-deps \
		--no-index --find-links "$(PIP_FIND_LINKS)" torch || echo "extras: torch comes from the index"
	@$(BIN)/python scripts/install_extras.py $(EXTRAS)

# The package with all extras, for the systems, processors and Pythons of docs/reference/sandbox.md.
test-platforms: $(INSTALLED)
	@$(BIN)/python scripts/resolve_platforms.py all

test-arm64: $(INSTALLED)
	@$(BIN)/python scripts/arm64.py

# The floor is in pyproject.toml (tool.coverage.report).
coverage: setup
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" --cov --cov-report=term:skip-covered --cov-report=html:build/coverage

# Without the scripts that need arguments: another checkout, a command.
bench: $(INSTALLED) packages
	@for script in $(filter-out %/side_by_side.py %/netlist_import.py,$(wildcard perf/*.py packages/*/perf/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

perf-smoke: $(INSTALLED)
	@$(BIN)/python scripts/perf_smoke.py

# Takes about half an hour on one processor, and needs the designs and clips (a2perf data fetch).
references: $(INSTALLED)
	@$(BIN)/python results/references.py

# Takes about a quarter of an hour. Finished runs are kept in runs/results, so a rerun resumes.
results: setup
	@$(BIN)/python results/record.py

# Finished verdicts are kept in build/reproduced, so a rerun resumes. Learned rows need their training again: --train.
reproduce: setup
	@$(BIN)/a2perf reproduce results/recorded --submission examples --submission packages/baselines/examples --allow-changed -o build/reproduced

# Takes 1.5 minutes of one processor, most of it for the videos; later builds take seconds. A dead link fails it.
docs: $(INSTALLED)
	@$(BIN)/python -m docs.building

test-docs: setup docs
	@A2PERF_SITE=$(CURDIR)/build/docs $(BIN)/python -m pytest -n $(WORKERS) -m "site and not slow" tests/docs

# The lock holds hashes of every file of a version, for other processors, and no addresses, for other indexes. torch and
# TensorFlow stay out: participants bring them.
# Distributions are tested with these extras.
PACKAGE_EXTRAS := dev huggingface mlflow tensorboard
lock:
	@test -x $(BIN)/uv || { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip install --quiet uv; }
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --extra all --extra slurm --extra dev --output-file $(REQUIREMENTS) pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --constraint $(REQUIREMENTS) $(PACKAGE_EXTRAS:%=--extra %) --output-file packages/requirements.lock packages/*/pyproject.toml

docker:
	@docker/build.sh

hooks: $(INSTALLED)
	@$(BIN)/pre-commit install

release: $(INSTALLED)
	@test -n "$(VERSION)" || { echo "VERSION is missing: make release VERSION=1.1.0"; exit 2; }
	@$(BIN)/python scripts/release.py $(VERSION) $(if $(DRY_RUN),--dry-run)

clean:
	rm -rf build dist runs *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

distclean: clean
	rm -rf $(VENV) $(FRAMEWORKS) .venv-3.* $(EXTRAS) $(OPENENV) $(OTHERS)
