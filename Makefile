# Every target first makes .venv where it is missing or stale. `make help` lists the targets.
# Another Python than python3:   make setup PYTHON=python3.12

SHELL := /bin/bash
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
HYPERMASK := $(VENV_PYTHON) -m hypermask
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup paper test test-slurm notebooks verify lab lint clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## make .venv with everything the project needs (a few minutes, 6 GB with CUDA's libraries)
	@echo "setup: .venv is up to date"

paper: $(INSTALLED) ## train Split MNIST's HyperMask-T live (seed 1, 4 to 6 minutes on 2 cores), then make all figures and tables
	@echo "paper: 1 of 2: train split_mnist/hypermask-t, seed 1, unless your own run of it is in runs/"
	$(HYPERMASK) run split_mnist/hypermask-t --seed 1
	@echo "paper: 2 of 2: write every figure and table from the records"
	$(HYPERMASK) regenerate

test: lint ## ruff, then the whole suite: units, stored notebook outputs, every notebook in its smoke profile
	@echo "test: run the whole suite"
	$(VENV_PYTHON) -m pytest

test-slurm: $(INSTALLED) ## run the Snakefile on a real one-node Slurm that is started for it (root on Debian or Ubuntu)
	workflow/test_slurm.sh $(VENV_PYTHON)

notebooks: $(INSTALLED) ## execute the committed notebooks again, in place (after new records), and write the results pages
	@echo "notebooks: execute notebooks/*.ipynb in place, each from a fresh kernel"
	$(HYPERMASK) notebooks
	@echo "notebooks: write the results into README.md and REPRODUCIBILITY.md"
	$(HYPERMASK) status --markdown README.md
	$(HYPERMASK) status --markdown REPRODUCIBILITY.md

verify: $(INSTALLED) ## train one committed record again, in full, and compare
	@echo "verify: train the committed record of split_mnist/hypermask-t, seed 1, again and compare"
	$(HYPERMASK) verify records/split_mnist/hypermask-t/02d0e9695504/seed1.json

lab: $(INSTALLED) ## open JupyterLab on the notebooks
	$(VENV_PYTHON) -m jupyterlab notebooks/

lint: $(INSTALLED) ## check style and format with ruff
	@echo "lint: ruff, notebooks included"
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .

clean: ## remove .venv, build/ and caches; runs/ stays
	rm -rf .venv build dist hypermask.egg-info .pytest_cache .ruff_cache .snakemake
	find hypermask tests notebooks \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# .venv is stale when pyproject.toml or the lock is newer, but also when it was moved or copied here from another
# folder or its Python is gone. The stamp (the folder's own path) is written last, so an interrupted set-up is stale.
ifneq ($(shell $(VENV_PYTHON) -c '' 2>/dev/null && cat $(INSTALLED) 2>/dev/null),$(CURDIR))
$(INSTALLED): FORCE
endif

# So is it when a Python is named on the command line whose version is another one.
VERSION := -c 'import sys; print(*sys.version_info[:2])'
ifeq ($(origin PYTHON),command line)
ifneq ($(shell $(PYTHON) $(VERSION) 2>/dev/null),$(shell $(VENV_PYTHON) $(VERSION) 2>/dev/null))
$(INSTALLED): FORCE
endif
endif

$(INSTALLED): pyproject.toml requirements.lock
	@have=$$($(PYTHON) -c 'import sys; print("Python %d.%d" % sys.version_info[:2])' 2>/dev/null || echo "not found"); \
	if ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  echo "setup: HyperMask needs Python 3.11 or newer and $(PYTHON) is $$have: install one and name it, for example 'make setup PYTHON=python3.12'." >&2; \
	  exit 1; \
	fi; \
	echo "setup: make .venv anew with $(PYTHON) ($$have); this takes a few minutes"
	@$(PYTHON) -m venv --clear .venv
	@locked=$$(sed -n 's/^# Made with: //p' requirements.lock); \
	here=$$($(VENV_PYTHON) -c 'import sys, sysconfig; print("Python %d.%d on %s" % (*sys.version_info[:2], sysconfig.get_platform()))'); \
	if [ "$$here" = "$$locked" ]; then \
	  echo "setup: install the exact versions of requirements.lock"; \
	  set -- -c requirements.lock; \
	else \
	  echo "setup: requirements.lock is for $$locked, this is $$here: install the newest versions in pyproject.toml's ranges"; \
	  set --; \
	fi; \
	$(VENV_PYTHON) -m pip install --disable-pip-version-check -e '.[test]' "$$@" \
	  || { echo "setup: the installation did not finish; the next 'make' starts it again." >&2; exit 1; }
	@pwd -P > $(INSTALLED)

FORCE:
