# Plain venv and pip, at the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help train test check bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

train: $(VENV)/.train  ## train on the bundled corpus, score, and say how to go on
	$(BIN)/python train.py overwrite=true

test: $(VENV)/.test  ## run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadscope

check: $(VENV)/.check  ## lint, check the format and the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.train  ## measure the speed of training on this machine
	$(BIN)/python benchmarks/train_speed.py

clean:  ## remove the environment
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Torch goes first: where a build of the pinned version is at hand, pip takes it and looks no further.
$(VENV)/.train: $(BIN)/python pyproject.toml constraints.txt
	$(INSTALL) torch
	$(INSTALL) --editable .
	touch $@

$(VENV)/.test: $(VENV)/.train
	$(INSTALL) --editable .[test]
	touch $@

$(VENV)/.check: $(VENV)/.train
	$(INSTALL) --editable .[check]
	touch $@
