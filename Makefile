# `make demo` and `make test` set up all they need, in a virtual environment in this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SAMPLE := sample_data
DEMO := demo
TIME ?= 60
BROWSER ?= chromium

.DEFAULT_GOAL := help
.PHONY: help install format check test test-fast fuzz docs docs-picture demo audit bench bench-check reproduce-words \
	reproduce-kernels reproduce-fairness reproduce-attackers clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(BIN)/salcli: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("salcli needs Python 3.11 or newer: make PYTHON=…") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . && touch $@

$(VENV)/.dev: $(BIN)/salcli
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' && touch $@

install: $(BIN)/salcli ## Set up salcli in .venv

format: $(VENV)/.dev ## Put the code into its one layout
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

check: $(VENV)/.dev ## Look at layout, lint and types
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

test: $(VENV)/.dev ## Run all tests
	$(BIN)/python -m pytest -n auto

test-fast: $(VENV)/.dev ## Run the tests that are not marked slow: under a minute, every module of the route
	$(BIN)/python -m pytest -n auto -m "not slow"

fuzz: $(VENV)/.dev ## Fuzz the readers (TIME=seconds for each); what is found is kept in .fuzz/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python -m tests.fuzz.fuzz_readers --seconds $(TIME) $(READERS)

$(VENV)/audit/bin/pip-audit: $(BIN)/salcli
	$(BIN)/python -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit

audit: $(VENV)/audit/bin/pip-audit ## Ask for known vulnerabilities of what salcli needs at run time
	@$(BIN)/python tests/audit.py $(VENV)/audit

docs: $(VENV)/.dev ## Write what the documentation takes from the code again: outputs, figures, docs/reference/cli.md
	$(BIN)/python -m tests.docs

docs-picture: $(VENV)/.dev ## Make docs/report.png again (BROWSER=chromium: headless)
	$(BIN)/python -m tests.docs.picture $(BROWSER)

demo: $(BIN)/salcli ## label, fit, apply and evaluate on sample_data, into demo/
	@mkdir -p $(DEMO)
	$(BIN)/salcli label $(SAMPLE)/glove-sample.txt --direction he:she --top 1000 -o $(DEMO)/labels.csv
	$(BIN)/salcli fit $(SAMPLE)/glove-sample.txt $(DEMO)/labels.csv -o $(DEMO)/gender.npz
	$(BIN)/salcli apply $(DEMO)/gender.npz $(SAMPLE)/glove-sample.txt -o $(DEMO)/erased.txt
	$(BIN)/salcli evaluate $(SAMPLE)/glove-sample.txt $(DEMO)/labels.csv --eraser $(DEMO)/gender.npz \
		--similarity wordsim353 --report $(DEMO)/report.html --report $(DEMO)/report.md
	@ls -l $(DEMO)

bench: SCALE = 1
bench: $(VENV)/.dev ## Measure speed into benchmarks/results.json, docs/benchmarks.md and README.md (SCALE=0.1: a quick run)
	$(BIN)/python -m benchmarks.speed --scale $(SCALE)

bench-check: SCALE = 0.1
bench-check: $(VENV)/.dev ## Measure speed again: fail if a ratio lost a quarter (SCALE as in benchmarks/results.json)
	$(BIN)/python -m benchmarks.speed --scale $(SCALE) --check

reproduce-words: $(VENV)/.dev ## Reproduce the word-embedding figures (GLOVE=glove.6B.100d.txt, WORDSIM=folder of gold sets)
	$(BIN)/python -m benchmarks.reproduce_words $(GLOVE) $(WORDSIM)

reproduce-kernels: $(VENV)/.dev ## Reproduce the kernel figures (GLOVE=glove.6B.100d.txt)
	$(BIN)/python -m benchmarks.reproduce_kernels $(GLOVE)

reproduce-fairness: $(VENV)/.dev ## Reproduce the fair-classification figures (DATA=folder with vectors.npy and labels.csv)
	$(BIN)/python -m benchmarks.reproduce_fairness $(DATA)

reproduce-attackers: $(VENV)/.dev ## Compare the attackers with others (DATA=folder of glove-6b-100d, dialect-sentiment, eec)
	$(BIN)/python -m benchmarks.strongest $(DATA)

clean: ## Remove what was made here
	rm -rf $(VENV) $(DEMO) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
