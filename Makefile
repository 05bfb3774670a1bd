# Everything sets itself up: Python 3.11 or newer and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NATIVE := src/dperm/kernel/native.abi3.so
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --upgrade --no-annotate --quiet \
  --custom-compile-command 'make lock'
MUTANTS ?= 100
# Something of every package, without a notebook, a browser or a server: 800 tests of one case each.
FAST := $(foreach name,\
  every_domain every_event every_loss every_mechanism every_mirror_map every_model every_prox_on_every_domain \
  every_regularizer every_solver every_source \
  auto dp_accmd dp_agd events disk kernels numbers_encoding plan_verdict progress rules schema second_order \
  solver_settings verdicts \
  accounting audit calibration composition encoding histogram ledger metadata noise rigorous sensitivity trusted_boundary \
  cli_budget cli_unexpected diagnose evaluation plan_once transformers private_pipeline releases report schema_check \
  search units_cli verify_checks,$(wildcard tests/*/test_$(name).py))
PEERS := .venv-peers
PEERS_READY := $(patsubst %,$(PEERS)/%/.ready,diffprivlib opacus jax-privacy)
ACCURACY_READY := $(patsubst %,$(PEERS)/%/.ready,diffprivlib interpret)

.PHONY: help native setup lock demo reproduce docs notebooks pictures check test test-fast test-for test-slow test-versions test-mutants release-check weight bench bench-speed bench-scale bench-auto peers bench-peers bench-accuracy clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): pyproject.toml setup.py build_backend.py requirements-build.lock requirements-compiler.lock requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dperm needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --only-binary :all: --requirement requirements-build.lock
	@$(BIN)/python -c 'import build_backend, sys; sys.exit(not build_backend.has_compiler())' || \
	  { echo "no C++ compiler: installing one from the package index"; \
	    $(INSTALL) --require-hashes --only-binary :all: --requirement requirements-compiler.lock; }
	$(INSTALL) --require-hashes --no-build-isolation --requirement requirements-dev.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(NATIVE): $(READY) src/dperm/kernel/native.pyx $(wildcard src/dperm/kernel/cpp/*)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

native: $(NATIVE) ## Compile the kernels again after a change in src/dperm/kernel

setup: $(NATIVE) ## Make the virtual environment: the versions in requirements-*.lock, each file checked against its hash

# What builds packages is installed first: pip would fetch it without a hash.
lock: $(NATIVE) ## Renew requirements-*.lock: the newest versions that pyproject.toml allows
	printf 'setuptools>=77\ncython>=3.1\n' | $(COMPILE) - --output-file requirements-build.lock
	echo 'ziglang>=0.13' | $(COMPILE) - --output-file requirements-compiler.lock
	$(COMPILE) pyproject.toml --extra dev --output-file requirements-dev.lock

demo: $(NATIVE) ## Adult and Covertype from raw tables at the defaults, beside no privacy: a picture in demo-output/
	$(BIN)/dperm demo --output demo-output

reproduce: $(NATIVE) ## The paper's figures and tables measured again, with verdicts: a page in reproduction/ (an hour)
	$(BIN)/dperm reproduce all --output reproduction

# Not with --quiet: it hides the warnings that --strict counts.
docs: $(NATIVE) ## The documentation site in site/: open site/index.html, no server needed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html"

notebooks: $(NATIVE) ## Run the notebooks of the documentation and store what they show
	$(BIN)/python docs/execute_notebooks.py

pictures: $(NATIVE) ## The pictures of docs/pictures.md, drawn again
	$(BIN)/python docs/pictures/draw.py

check: $(NATIVE) ## Format, lint, types and the trusted boundary
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check ## All checks and tests, on all cores
	$(BIN)/python -m pytest -n auto --dist worksteal --durations=10

test-fast: $(NATIVE) ## One case of 800 tests from every package, in a minute: no notebook, no browser, no server
	$(BIN)/python -m pytest -n auto --dist worksteal --fast $(FAST)

test-for: $(NATIVE) ## The tests of one source file: make test-for FILE=src/dperm/plan/auto.py
	$(BIN)/python tests/for_file.py $(FILE)

test-slow: $(NATIVE) ## Every solver on every problem: what `make test` takes a sample of
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

test-versions: $(NATIVE) ## Contract, problem, schema and solver tests with the wheel, on each of Python 3.11, 3.12 and 3.13 that is installed
	$(BIN)/python tests/release/run.py versions

release-check: $(NATIVE) ## Build sdist and wheel, check them, install outside the checkout and follow the quick start
	$(BIN)/python tests/release/run.py wheel

test-mutants: $(NATIVE) ## Does a test notice a wrong operator or number in trusted code? A sample of MUTANTS=100 (about an hour); 0: all
	$(BIN)/python tests/mutants/run.py $(MUTANTS)

weight: $(NATIVE) ## Lines, classes, plans, and what one fit and one verification touch; beside a revision: make weight REV=b0fd0bb
	$(BIN)/python tests/weight.py $(if $(REV),--rev $(REV))

bench: $(NATIVE) ## Speed, memory and risk, as ratios measured side by side
	$(BIN)/python benchmarks/memory.py in-memory
	$(BIN)/python benchmarks/calibration.py
	$(BIN)/python benchmarks/dp_gd.py
	$(BIN)/python benchmarks/svrg.py
	$(BIN)/python benchmarks/accmd.py
	$(BIN)/python benchmarks/frank_wolfe.py
	$(BIN)/python benchmarks/selections.py
	$(BIN)/python benchmarks/filter.py
	$(BIN)/python benchmarks/sgd.py
	$(BIN)/python benchmarks/nonconvex.py
	$(BIN)/python benchmarks/adam_steps.py
	$(BIN)/python benchmarks/support.py
	$(BIN)/python benchmarks/regression.py
	$(BIN)/python benchmarks/units.py
	$(BIN)/python benchmarks/auto.py cells
	$(BIN)/python benchmarks/adult.py
	$(BIN)/python benchmarks/audit.py

bench-speed: $(NATIVE) ## Speed beside the last revision that compiled when it ran, and memory that is promised, in ten minutes
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/memory.py quick

bench-scale: $(NATIVE) ## Tables larger than memory and clusters: ratios, and docs/scale.png (half an hour, 20 GB of disk)
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/memory.py on-disk

bench-auto: $(NATIVE) ## auto against every other solver in 144 cells (hours); DPERM_DATA names a folder with a9a.npz
	$(BIN)/python benchmarks/auto.py grid --seeds 3

$(PEERS)/%/.ready: benchmarks/peers/%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

peers: $(PEERS_READY) ## Environments for diffprivlib, Opacus and jax-privacy: 2 GB, more where torch brings CUDA

bench-peers: $(NATIVE) $(PEERS_READY) ## dperm against diffprivlib, Opacus, jax-privacy and scikit-learn (an hour); DPERM_DATA names the folder of tables
	$(BIN)/python benchmarks/peers/compare.py
	$(BIN)/python benchmarks/peers/networks.py

bench-accuracy: $(NATIVE) $(ACCURACY_READY) ## Accuracy by ε on eight tables against peers and no privacy: docs/accuracy.md (an hour); DPERM_DATA names their folder
	$(BIN)/python benchmarks/accuracy/measure.py

clean: ## Remove what was made here
	rm -rf $(VENV) $(PEERS) build dist demo-output reproduction site .pytest_cache .mypy_cache .ruff_cache .hypothesis
