# The doors of the house. Each target makes .venv and installs what it needs.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard core/*/*.hpp core/*/*/*.hpp bindings/*)

SECONDS ?= 60
SEED := $(or $(SEED),$(shell date +%s))
CLANG ?= clang++

.PHONY: stubs demo test reproduce fuzz sanitize lint format bench docs wheel clean
demo: .venv/installed
	$(BIN)/multimargin demo

test: .venv/developer
	$(BIN)/python -m pytest -n 2

# Published tables: make reproduce lists them; PAPER=tan2015 TABLE=table2 runs one, SMALL=1 a quick variant.
reproduce: .venv/installed
	@$(BIN)/python -m papers $(PAPER) $(TABLE) $(if $(SMALL),--small) $(if $(JSON),--json)

# Random attacks, SECONDS in all: on readers, model files, estimators, baselines and, with clang, the native readers.
fuzz: SHARE = $(shell expr $(SECONDS) / 5)
fuzz: .venv/developer
	@echo "make fuzz SECONDS=$(SECONDS) SEED=$(SEED)"
	@code=0; \
	for attack in readers model_files estimators baseline_estimators; do \
	    echo "-- $$attack"; $(BIN)/python fuzz/$$attack.py --seconds $(SHARE) --seed $(SEED) || code=1; \
	done; \
	echo "-- native readers"; \
	if command -v $(CLANG) > /dev/null; then \
	    $(MAKE) -C fuzz/text run CLANG=$(CLANG) SECONDS=$$(expr $(SHARE) / 4) SEED=$(SEED) || code=1; \
	else echo "left out: there is no $(CLANG)"; fi; \
	exit $$code

# The native core with AddressSanitizer and UndefinedBehaviorSanitizer, then with ThreadSanitizer.
sanitize: .venv/developer
	$(MAKE) -C fuzz/sanitize address
	$(MAKE) -C fuzz/sanitize thread

lint: .venv/developer
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/check_core.py
	$(BIN)/python tools/stubs.py --check
	$(BIN)/clang-format --dry-run -Werror $(wildcard core/*/*.hpp core/*/*/*.hpp bindings/*)

format: .venv/developer
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(wildcard core/*/*.hpp core/*/*/*.hpp bindings/*)

# The types of the native module, from the module itself.
stubs: .venv/developer
	$(BIN)/python tools/stubs.py

# Every family beside a peer and beside the limits of the machine, and how each grows; tables and a picture in benchmarks/results.
bench: .venv/developer
	$(BIN)/python -m pip install -q --group bench
	$(BIN)/python benchmarks/overview.py
	$(BIN)/python benchmarks/scaling.py

docs: .venv/installed
	$(BIN)/python -m pip install -q --group docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build
	@! grep -rnoE '<(script|link|img)[^>]* (src|href)="(https?:)?//[^"]*' docs/_build --include='*.html' # readable offline
	@echo "docs/_build/index.html"

# What is published: archive and wheels in dist, checked, and tried with the oldest and the newest of what they need.
wheel: .venv/developer
	$(BIN)/python -m pip install -q --group wheel
	$(BIN)/python tools/wheel.py

clean:
	rm -rf .venv build dist docs/_build docs/generated

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
