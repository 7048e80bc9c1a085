# rltop: every task of the project. `make demo` and `make test` work on a machine that has only Python.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help setup demo test unit check format tour snapshots screenshots bounds bench bench-quick bench-peers fuzz live score score-peer score-simulated lock clean
.DEFAULT_GOAL := help

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## *' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP)  ## environment and pinned dependencies, in .venv
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup      ## a bundled recorded run, replayed as if live
	@$(BIN)/rltop demo

# Where modules may not be kept compiled, as in many images of Python, each of four hundred programs compiles all that it
# imports. A worker that has done its tests takes some from another's, so that all end at the same time. Three are for two
# cores: screens and programs in a terminal wait for a third of their time and more.
WORKERS ?= 3
PYTEST  := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q
SHARED   = $(PYTEST) -n $(WORKERS) --dist worksteal --durations=20 --durations-min=2

# In a fresh clone each worker would compile all modules and rewrite the assertions of all tests, three times what it takes
# to import them; here each half is done once.
COMPILED := $(VENV)/.compiled
REST     := $(addprefix tests/,contracts e2e golden property ui)
$(COMPILED): $(STAMP)
	@$(PYTEST) --collect-only tests/unit >/dev/null & $(PYTEST) --collect-only $(REST) >/dev/null; wait
	@touch $@

test: $(COMPILED)  ## the whole suite, WORKERS (3) tests at a time, then those that must be alone
	@$(SHARED)

unit: WORKERS = 4
unit: $(COMPILED)  ## the unit tests alone, which wait more than they compute
	@$(SHARED) tests/unit

check: $(COMPILED)  ## format, lint, types, import contracts, tests; what it costs beside the last release
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(SHARED)
	-@$(BIN)/python bench/beside.py --quick

format: setup    ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

tour: setup      ## press every key on every page at five sizes, and 100,000 by chance (about half an hour)
	RLTOP_TOUR=all $(BIN)/python -m pytest -q -n $(WORKERS) tests/ui/test_tour.py

snapshots: setup ## accept the screens as they are now
	$(BIN)/python -m pytest -q tests/ui/test_snapshots.py --snapshot-update

screenshots: setup  ## draw docs/screenshots/*.svg with the program as it is now
	$(BIN)/python docs/make_screenshots.py

PYTHONS ?= python3.11 python3.12 python3.13
bounds: setup    ## the lowest and newest dependencies, on each of PYTHONS, in .venv-bounds (about 3 min each)
	$(BIN)/python tests/dependency_bounds.py --environments .venv-bounds $(PYTHONS:%=--python %)

bench: setup     ## every benchmark; writes bench/RESULTS.md
	$(BIN)/python bench/run.py

bench-quick: setup  ## ratios of time and memory beside those of the last release (bench/budget.toml), in a minute
	$(BIN)/python bench/beside.py --quick

VIEWERS := bench/.venv-viewers
$(VIEWERS)/.installed: bench/viewer-requirements.txt
	$(PYTHON) -m venv $(VIEWERS)
	-$(VIEWERS)/bin/pip install --quiet --disable-pip-version-check -r bench/viewer-requirements.txt
	@touch $(VIEWERS)/.installed

bench-peers: setup $(VIEWERS)/.installed  ## LEET, terminalboard and rltop on the same run, the peers in bench/.venv-viewers
	$(BIN)/python bench/viewers.py --environment $(VIEWERS)

FUZZER := bench/.venv-fuzz
$(FUZZER)/.installed: bench/fuzz-requirements.txt
	$(PYTHON) -m venv $(FUZZER)
	$(FUZZER)/bin/pip install --quiet --disable-pip-version-check -r bench/fuzz-requirements.txt
	@touch $(FUZZER)/.installed

fuzz: setup $(FUZZER)/.installed  ## search for bytes that a decoder cannot bear (about 4 min); writes bench/RESULTS.md
	$(BIN)/python bench/fuzz.py --python $(abspath $(FUZZER))/bin/python

WRITERS := bench/.venv-writers
$(WRITERS)/.installed: tests/e2e/writers-requirements.txt
	$(PYTHON) -m venv $(WRITERS)
	$(WRITERS)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/writers-requirements.txt
	@touch $(WRITERS)/.installed

BROWSER ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
LIVE := bench/.venv-live
$(LIVE)/.installed: tests/e2e/live-requirements.txt
	$(PYTHON) -m venv $(LIVE)
	$(LIVE)/bin/pip install --quiet --disable-pip-version-check -r tests/e2e/live-requirements.txt
	@touch $(LIVE)/.installed

# Where it cannot be installed its test is skipped, and the next `make live` tries again. torchvision and its like are
# asked for, and do not load beside torch for the CPU.
VLLM := bench/.venv-vllm
$(VLLM)/.installed: tests/e2e/vllm-requirements.txt
	$(PYTHON) -m venv $(VLLM)
	-$(VLLM)/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/e2e/vllm-requirements.txt \
	  && $(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec && touch $@

live: setup $(WRITERS)/.installed $(LIVE)/.installed $(VLLM)/.installed  ## follow files while they are written, ask vLLM, Ray, Prometheus, Slurm, sshd; a report and the screen in BROWSER
	RLTOP_WRITERS=$(abspath $(WRITERS))/bin/python $(BIN)/python -m pytest -q tests/e2e/test_live_writers.py
	RLTOP_BROWSER=$(BROWSER) $(BIN)/python -m pytest -q tests/e2e/test_report_browser.py
	RLTOP_BROWSER=$(BROWSER) RLTOP_WRITERS=$(abspath $(WRITERS))/bin/python $(BIN)/python -m pytest -q tests/e2e/test_served.py
	RLTOP_LIVE=1 RLTOP_RAY=$(abspath $(LIVE))/bin/python RLTOP_VLLM=$(abspath $(VLLM))/bin/python $(BIN)/python -m pytest -q tests/e2e/test_live_sources.py

score: setup     ## catch rate and false alarms on labelled runs (RLTOP_RUNS); writes bench/RESULTS.md
	$(BIN)/python bench/score.py
	$(BIN)/python docs/generate_rules.py
	$(BIN)/python docs/generate_readme.py

PEER := bench/.venv-peer
$(PEER)/.installed: bench/peer-requirements.txt
	$(PYTHON) -m venv $(PEER)
	$(PEER)/bin/pip install --quiet --disable-pip-version-check -r bench/peer-requirements.txt
	@touch $(PEER)/.installed

score-peer: setup $(PEER)/.installed  ## the same for rlwatch and rl-doctor, from the package index, in bench/.venv-peer
	$(BIN)/python bench/score.py --tool rlwatch --peer-python $(abspath $(PEER))/bin/python
	$(BIN)/python bench/score.py --tool rl-doctor --peer-python $(abspath $(PEER))/bin/python
	$(BIN)/python docs/generate_rules.py
	$(BIN)/python docs/generate_readme.py

score-simulated: setup  ## made runs of every kind, healthy and failing, in two splits; writes bench/simulated.csv (2 min)
	$(BIN)/python bench/score_simulated.py

lock: setup      ## refresh constraints.txt from what is installed now
	$(BIN)/pip freeze --exclude-editable > constraints.txt

clean:           ## remove everything that make made
	rm -rf $(VENV) .venv-bounds bench/.venv-peer bench/.venv-fuzz bench/.venv-viewers bench/.venv-writers bench/.venv-live bench/.venv-vllm build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
