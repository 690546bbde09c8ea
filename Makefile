# demo and test are the two commands to know; CI runs check and test (.ci/run).
# Each target makes what it needs: PYTHON is the interpreter to begin with, ARGS goes to the program behind the target.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet
LOCK    = UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes

export PATH := $(PATH):/usr/sbin:/sbin# where Debian puts mosquitto, and a user's PATH may not look

.NOTPARALLEL:
.PHONY: demo test soak check bench rig docs generate lock packages clean

demo: $(VENV)/run.stamp  ## the whole table on this machine, no hardware: make demo ARGS='--lang en --rounds 5'
	$(BIN)/tabled --demo $(ARGS)

test: packages $(VENV)/dev.stamp  ## every test, properties with small counts
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

soak: packages $(VENV)/dev.stamp  ## every test, properties and kills with large counts: hours
	HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -m 'soak or not soak' -o timeout=7200 $(ARGS)

check: packages $(VENV)/dev.stamp  ## what a commit must pass beside the tests: style, types, contracts, generated files, firmware
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m tests.generate --check
	$(MAKE) --no-print-directory -C firmware PYTHON=$(CURDIR)/$(BIN)/python
	$(BIN)/python -m pytest tests/test_architecture.py tests/test_project.py

bench: packages $(VENV)/dev.stamp  ## latencies, start, memory, rounds a second, each beside a floor of the same run
	$(BIN)/python tests/bench/run.py $(ARGS)

rig: $(VENV)/dev.stamp build/rig/guest.cpio  ## the adapters on a real kernel's devices, in a guest: Debian 12, see tests/rig/README.md
	$(BIN)/python tests/rig/run.py build/rig $(ARGS)

build/rig/guest.cpio: tests/rig/build.sh tests/rig/init tests/rig/rig_oled.c tests/rig/packages.txt
	@PYTHON='$(PYTHON)' tests/packages.sh tests/rig/packages.txt
	mkdir -p $(@D)
	$(if $(filter-out 0,$(shell id -u)),sudo )tests/rig/build.sh $(@D)

generate: $(VENV)/dev.stamp  ## writes every file that is made from another
	$(BIN)/python -m tests.generate

docs: $(VENV)/dev.stamp  ## the wiring pictures under hardware/; needs graphviz from Debian
	$(PIP) --require-hashes -r requirements/docs.txt
	$(BIN)/python -m tests.harness

lock: $(VENV)/dev.stamp  ## pins anew what pyproject.toml asks for, the same versions where they still do: ARGS=--upgrade for newer ones
	$(LOCK) --extra pi --extra dev $(ARGS) --output-file requirements/dev.txt pyproject.toml
	$(LOCK) --constraint requirements/dev.txt --upgrade --output-file requirements/run.txt pyproject.toml
	$(LOCK) --extra pi --constraint requirements/dev.txt --upgrade --output-file requirements/pi.txt pyproject.toml
	echo 'wireviz==0.4.1' | $(LOCK) --constraint requirements/dev.txt --output-file requirements/docs.txt -
	echo hatchling | $(LOCK) --constraint requirements/dev.txt --upgrade --output-file requirements/build.txt -

packages:  ## the Debian packages that the tests need
	@PYTHON='$(PYTHON)' tests/packages.sh

clean:  ## removes the venv, what was built and every cache
	$(MAKE) --no-print-directory -C firmware clean
	rm -rf $(VENV) build/rig .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# Pins decide: an install over an older lock changes what differs and takes a second where nothing does.
$(VENV)/run.stamp: requirements/build.txt requirements/run.txt pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/build.txt -r requirements/run.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/dev.txt
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo '$(PYTHON) is no Python 3.11 or newer: name one, as in: make PYTHON=python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo '$(PYTHON) cannot make a venv. Run: sudo apt-get install -y python3-venv' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
