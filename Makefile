# The doors of the house. Each target makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard core/*.hpp core/*/*.hpp bindings/*)

.PHONY: demo test lint format bench docs clean
demo: .venv/installed
	$(BIN)/multimargin demo

test: .venv/developer
	$(BIN)/python -m pytest -n 2

lint: .venv/developer
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/clang-format --dry-run -Werror $(wildcard core/*.hpp core/*/*.hpp bindings/*)

format: .venv/developer
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(wildcard core/*.hpp core/*/*.hpp bindings/*)

bench: .venv/developer
	$(BIN)/python -m pip install -q --group bench
	$(BIN)/python benchmarks/linear_m3l.py --sets bibtex tmc2007 medical --name quick

docs: .venv/installed
	$(BIN)/python -m pip install -q --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@echo "docs/_build/index.html"

clean:
	rm -rf .venv build docs/_build docs/api

.venv/build-tools:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --upgrade "pip>=25.1"
	$(BIN)/python -m pip install -q --group build
	touch $@

# An editable install: Python edits take effect at once, C++ edits are rebuilt, file by file, at the next make.
.venv/installed: .venv/build-tools $(SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install -q --no-build-isolation -e ".[all]"
	touch $@

.venv/developer: .venv/installed
	$(BIN)/python -m pip install -q --group dev
	touch $@
