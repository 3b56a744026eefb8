# Plain venv and pip, at the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/python $(PIP) --constraint constraints.txt
# onnxruntime-web, which a page that translates contains; the network is needed here and not later.
WEB_RUNTIME := $(BIN)/python -m seq2seq.export.web_runtime data/cache
# Without an NVIDIA GPU, torch's CPU build saves gigabytes of CUDA libraries; its index may be blocked.
CPU_INDEX := https://download.pytorch.org/whl/cpu
ANSWERS := import sys, urllib.request as request; request.urlopen(sys.argv[1], timeout=5)
TORCH_INDEX ?= $(shell command -v nvidia-smi >/dev/null || \
	{ $(PYTHON) -c '$(ANSWERS)' $(CPU_INDEX)/torch/ 2>/dev/null && echo $(CPU_INDEX); })
INSTALL_TORCH = index="$(TORCH_INDEX)"; \
	echo "installing torch from $${index:-the default package index}"; $(1) $${index:+--index-url $$index}
# The torch that test-newest installs, for example torch==2.6.
TORCH ?= torch
PYTEST := -m pytest --numprocesses auto --dist loadscope --no-loadscope-reorder
MARKS := not slow

.DEFAULT_GOAL := help
.PHONY: help train sample everyday test test-all test-newest faults check docs wheel bench gpu clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

train: $(VENV)/.train  ## train on the bundled corpus or continue, score, and print the next commands
	$(BIN)/python train.py resume=auto

SAMPLE := $(foreach part,train valid test,$(addprefix $(part).,de en tsv align))

# A line of the corpus is German, English and word links.
sample:  ## write 5,500 sentence pairs into my/, for the commands of the documentation
	@mkdir -p my && cd my || exit; count=0; \
	for file in $(SAMPLE); do \
		if [ -e $$file ] || [ -L $$file ]; then count=$$((count + 1)); found=$$file; fi; \
	done; \
	if [ $$count = $(words $(SAMPLE)) ]; then echo "my/ has the sample files; they stay"; exit; fi; \
	if [ $$count != 0 ]; then \
		echo "error: my/$$found exists, and make sample replaces no file; move my/ away" >&2; exit 1; \
	fi; \
	hidden=$$(mktemp -d .sample.XXXXXX) && trap "rm -r $$hidden" EXIT && trap 'exit 1' HUP INT TERM && \
	gzip -t ../data/german-english.tsv.gz && \
	gzip -cd ../data/german-english.tsv.gz | head -n 5500 | awk -F '\t' -v OFS='\t' '{ \
		name = "'$$hidden'/" (NR > 500 ? "train" : NR > 250 ? "test" : "valid"); \
		print $$1 > (name ".de"); \
		print $$2 > (name ".en"); \
		print $$1, $$2 > (name ".tsv"); \
		print $$3 > (name ".align"); \
	}' && mv -n $$hidden/* .

# The folder of the pairs: train.de.gz, train.en.gz, valid.de.gz and valid.en.gz.
ROOT ?= ../shared/data/tatoeba
PAIRS := pairs of sentences are at tatoeba.org and, as a table, at www.manythings.org/anki

everyday:  ## train the model of checkpoints/everyday-de-en in 30 minutes, on the pairs in ROOT
	@[ -e "$(ROOT)/train.de.gz" ] || { echo "error: ROOT=$(ROOT) has no train.de.gz; $(PAIRS)" >&2; exit 2; }
	$(MAKE) $(VENV)/.train
	$(INSTALL) --editable .[onnx]
	$(BIN)/python train.py experiment=everyday data.root=$(ROOT) resume=auto
	$(BIN)/python -m seq2seq.cli.export checkpoint=checkpoints/everyday precision=int8 \
		output=checkpoints/everyday-de-en overwrite=true

test: $(VENV)/.test  ## run the tests that are not marked slow, in about five minutes
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m "$(MARKS)"

test-all:  ## run the slow tests too: full trainings, kills, several processes, benchmarks
	$(MAKE) test MARKS=

test-newest:  ## run the tests with the newest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-newest
	@$(call INSTALL_TORCH,.venv-newest/bin/python $(PIP)) $(TORCH)
	.venv-newest/bin/python $(PIP) --editable .[test]
	OMP_NUM_THREADS=1 .venv-newest/bin/python $(PYTEST)

faults: $(VENV)/.test  ## kill runs, fill the disk and damage files for an hour; see tests/faults/README.md
	OMP_NUM_THREADS=1 FAULTS_KILLS=100 FAULTS_DISK=50 FAULTS_LINES=250000 \
		$(BIN)/python -m pytest -s tests/faults

check: $(VENV)/.check  ## lint, check format, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

wheel: $(VENV)/.check  ## build sdist and wheel, and use the wheel in an empty environment
	bash .ci/wheel

bench: $(VENV)/.train  ## measure the speed of training on this machine
	$(BIN)/python benchmarks/train_speed.py

# DATA is a folder with Multi30k. Nothing is installed: the machine may be without a network.
gpu:  ## check and measure everything that needs a GPU, in eight minutes; see CONTRIBUTING.md
	$(or $(wildcard $(BIN)/python),$(PYTHON)) benchmarks/gpu/check.py $(if $(DATA),data.root=$(DATA))

clean:  ## remove the environments and what was built
	rm -rf $(VENV) .venv-newest dist docs/_build

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Torch goes first: pip takes a local build of the pinned version if there is one.
$(VENV)/.train: $(BIN)/python pyproject.toml constraints.txt
	@$(call INSTALL_TORCH,$(INSTALL)) torch
	$(INSTALL) --editable .
	touch $@

$(VENV)/.test: $(VENV)/.train
	$(INSTALL) --editable .[test]
	$(WEB_RUNTIME) || echo "tests of pages that translate will be skipped"
	touch $@

$(VENV)/.check: $(VENV)/.train
	$(INSTALL) --editable .[check]
	touch $@

$(VENV)/.docs: $(VENV)/.train
	$(INSTALL) --editable .[docs]
	$(WEB_RUNTIME) || echo "the documentation will have no page that translates"
	touch $@
