# demo   a designed, loaded and queried shop on SQLite, and the DynamoDB design of the same model
# check  format, lint, types and the quick tests, none of which needs a server; under a minute
# test   everything, on real engines, which are fetched and started; ENGINE=name for one of them
# bench  speed against hand-written code;  soak  thousands of generated programs
# up     a server to play with: make up ENGINE=dynamodb;  clean  removes what make made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than there are cores: tests wait for servers a part of their time.
JOBS ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
SERVERS := $(wildcard tests/engines/*/server.py)

# Tests and benchmarks start many processes, and each would compile all of keyplan anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo servers lint check test bench soak up clean

help:
	@sed -n 's/^# //p' Makefile | sed '/^$$/d' | head -n 5

demo: $(VENV)/base.stamp
	@PATH="$(CURDIR)/$(BIN):$$PATH" examples/demo.sh

# Stamps: pip runs again only when the dependencies change.
$(VENV)/python.stamp:
	@.ci/need "$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'" python3 \
		"$(PYTHON) -c 'import ensurepip, venv'" python3-venv
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/base.stamp: $(VENV)/python.stamp pyproject.toml
	@echo "installing keyplan into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/python.stamp pyproject.toml
	@echo "installing keyplan, every driver and the tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev]'
	@touch $@ $(VENV)/base.stamp

$(VENV)/engines.stamp: Makefile
	@.ci/need "command -v java" default-jre-headless "command -v mvn" maven "command -v npm" npm \
		"ls /usr/lib/*/libcurl.so.4" libcurl4 "ls /usr/lib/*/libssl.so.3" libssl3
	@mkdir -p $(VENV) && touch $@

# While the rest is installed, if make runs two jobs; otherwise, and without harm, in its turn.
servers: $(VENV)/python.stamp $(VENV)/engines.stamp
	@$(BIN)/python -m tests.engines.fetch

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy

# What one runs all the time: the tests of every layer, some generated programs and designs, the shape of the whole.
# Not the hand-written conformance cases, faults, examples and documentation, nor what is marked `thorough`.
QUICK := tests/unit tests/cli tests/engines/sqlite tests/conformance/test_generated.py \
	tests/test_architecture.py tests/test_compose.py tests/test_public_api.py tests/test_registries.py tests/test_startup.py

check: lint
	KEYPLAN_PROGRAMS=20 KEYPLAN_DESIGNS=3 $(BIN)/pytest -q -n $(JOBS) --engine sqlite -m "not thorough" --hypothesis-profile quick $(QUICK)

test: servers $(VENV)/dev.stamp
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(if $(ENGINE),--engine $(ENGINE))

soak: $(VENV)/dev.stamp $(VENV)/engines.stamp
	KEYPLAN_RANDOM=1 KEYPLAN_PROGRAMS=$(or $(PROGRAMS),5000) $(BIN)/pytest --timeout 0 tests/conformance $(if $(ENGINE),--engine $(ENGINE))
	KEYPLAN_DESIGNS=$(or $(DESIGNS),2000) $(BIN)/pytest --timeout 0 tests/unit/design

bench: $(VENV)/dev.stamp $(VENV)/engines.stamp
	@missed=; for file in $(wildcard tests/engines/*/bench.py tests/bench/bench_*.py); do \
		part=$$(echo $${file%.py} | tr / .); printf '\n== %s\n' "$$part"; \
		$(BIN)/python -m "$$part" || { [ $$? -le 2 ] || exit; missed="$$missed $$part"; }; \
	done; \
	[ -z "$$missed" ] || { echo "failed or missed a bar:$$missed" >&2; exit 1; }

up: $(VENV)/dev.stamp $(VENV)/engines.stamp
	@test -f tests/engines/$(ENGINE)/server.py \
		|| { echo "make up ENGINE=name, one of: $(patsubst tests/engines/%/server.py,%,$(SERVERS))"; exit 2; }
	$(BIN)/python -m tests.engines.$(ENGINE).server

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
