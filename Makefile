# Everything a newcomer needs: `make app` and `make test`. Each sets up what it uses and is quick the second time.
# The first Python that is new enough and can make a virtual environment (Debian's lacks ensurepip without python3-venv).
USABLE := import sys, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c '$(USABLE)' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
APP_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help app test gpu lint format lab weights clean

help:
	@echo "make app    set up, get the weights, serve the explorer page"
	@echo "make test   set up, lint, run every test"
	@echo "make gpu    correctness and speed on an NVIDIA GPU, where there is one"
	@echo "make lab    open the notebooks in JupyterLab"
	@echo "make lint   ruff, mypy and the import rules"

# `specscope app` gets the weights itself, with a bar: one start of Python in place of two.
app: $(VENV)/.app
	$(BIN)/specscope app $(APP_ARGS)

test: $(VENV)/.dev lint weights
	$(BIN)/python -m pytest

# What needs an NVIDIA GPU, in under eight minutes; without one it says so. SPECSCOPE_GPU_SECONDS: time for measuring.
gpu: $(VENV)/.dev
	$(BIN)/python -m pytest tests/gpu -m gpu -s -rs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lab: $(VENV)/.dev weights
	$(BIN)/jupyter lab notebooks

weights: $(VENV)/.app
	@$(BIN)/specscope models fetch embedded > /dev/null

# The stamps are written last, so an install that was cut short is done again.
$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(USABLE)' || \
		{ echo "specscope needs Python 3.11 or newer with venv; run: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip  # resolvers before 24 take minutes over the test tools

$(VENV)/.app: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.app
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) build *.egg-info
