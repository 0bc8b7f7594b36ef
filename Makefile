# Everything sets itself up in .venv from nothing but Python 3.11 (or newer) and make.
#
#   make demo    a foreman and a worker at work        make test    all tests (under ten minutes)
#   make check   format, lint, types, bands, spelling  make bench   gandy beside its peers
#   make docs    write what docs take from the code    make fuzz    search the decoders for crashes (FUZZ_SECONDS=60)
#   make soak    the long runs of the simulator        make format  let ruff format and mend what it can
#   make test-browser  the dashboard's page in Chromium (as root, installs it)      make picture  the one in the README
#   make fuzz-api  search the dashboard's API for errors (FUZZ_SECONDS=60)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
FUZZ_SECONDS ?= 60
SOAK_SEEDS ?= 20000

# Tests start hundreds of processes. Each would compile gandy anew if none may keep what it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo test test-browser picture check format docs bench fuzz fuzz-api soak clean help

help:
	@sed -n 's/^# *make/make/p; s/^#   make/make/p' Makefile | sort -u

demo: $(VENV)/.run
	@$(BIN)/python examples/demo.py

# The pure bands are covered completely by tests of their own. The others run real things, and wait more than they compute.
COVERING := tests/unit tests/vectors
BROWSING := tests/browser
JOBS := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2)))

test: $(VENV)/.dev
	@$(BIN)/python -m pytest -n auto --cov --cov-report=term $(COVERING)
	@$(BIN)/python -m tests.as_root -m pytest -n $(JOBS) --dist worksteal $(addprefix --ignore=,$(COVERING) $(BROWSING))

# Chromium is the only thing that make does not keep in .venv. One browser serves all tests, one after the other.
test-browser: $(VENV)/.dev
	@tools/install_chromium.sh
	@$(BIN)/python -m pytest -s $(BROWSING)

picture: $(VENV)/.dev
	@tools/install_chromium.sh
	@GANDY_PICTURES=docs $(BIN)/python -m pytest -k readme_picture $(BROWSING)

check: $(VENV)/.dev
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted: run 'make format'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file tests/mypy.toml
	@$(BIN)/lint-imports --no-cache > $(VENV)/bands.log || { cat $(VENV)/bands.log; exit 1; }
	@$(BIN)/codespell
	@$(BIN)/python -m tools.build_docs --check
	@echo "check: all good"

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

docs: $(VENV)/.dev
	@$(BIN)/python -m tools.build_docs

bench: $(VENV)/.dev
	@$(BIN)/python -m bench

fuzz: $(VENV)/.fuzz
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

fuzz-api: $(VENV)/.dev
	@$(BIN)/python -m tests.api_fuzz --seconds $(FUZZ_SECONDS)

soak: $(VENV)/.dev
	@GANDY_SIM_SEEDS=$(SOAK_SEEDS) $(BIN)/python -m pytest -n auto tests/sim
	@GANDY_COLD=1 $(BIN)/python -m pytest -n auto tests/e2e -k command
	@GANDY_KILLS=20 GANDY_KILL_TASKS=2000 $(BIN)/python -m pytest tests/e2e/test_kills.py
	@GANDY_WORKER_KILLS=12 GANDY_WORKER_KILL_TASKS=2300 $(BIN)/python -m pytest tests/e2e/test_worker_kills.py
	@GANDY_KILL_CALLS=5000 $(BIN)/python -m pytest tests/e2e/test_functions.py
	@GANDY_QUIET_MACHINE=1 $(BIN)/python -m pytest tests/netns tests/e2e/test_at_a_time.py tests/e2e/test_clock_steps.py -rs
	@GANDY_REGISTRATIONS=1000000 $(BIN)/python -m pytest tests/e2e/test_roundrobin_door.py -k endless
	@GANDY_HOSTILE=1000000 $(BIN)/python -m pytest tests/integration/hostile
	@GANDY_STRANGERS=10000 $(BIN)/python -m pytest tests/e2e/test_hostile_peers.py -k siege
	@GANDY_STREAM_BYTES=1000000000 $(BIN)/python -m pytest tests/e2e/test_call_memory.py
	@GANDY_SLEEP_SECONDS=60 $(BIN)/python -m pytest tests/e2e/test_many_foremen.py -k slept
	@GANDY_DISASTERS=3 $(BIN)/python -m pytest tests/e2e/test_standby.py
	@GANDY_HISTORY_STRIDE=1 $(BIN)/python -m pytest tests/store/test_history_year.py
	@GANDY_FLIPS=2000 $(BIN)/python -m pytest tests/store/test_damage.py
	@GANDY_HYPOTHESIS_PROFILE=soak $(BIN)/python -m pytest -n auto tests/property tests/fuzz/test_hypothesis.py

clean:
	rm -rf $(VENV) .bench .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage

# What was installed is remembered in stamp files, so that the second run has nothing to do.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "gandy needs Python 3.11 or newer; say which with 'make PYTHON=...'"; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dashboard]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.run

$(VENV)/.fuzz: $(VENV)/.dev
	@$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev,fuzz]'
	@touch $@
