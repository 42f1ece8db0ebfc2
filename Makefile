# Needs Python 3.11 or newer, make and git. ARGS passes options: make serve ARGS="--port 8080"

PYTHON := $(shell for each in python3.13 python3.12 python3.11 python3; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$each && break; done)
BIN := .venv/bin
EXTRAS := dev

.PHONY: serve test test-demo test-rest check format

serve: .venv/installed
	$(BIN)/galley serve $(ARGS)

# Two processes side by side: the programs of all models that tests load are more than one process
# may map, and one alone leaves a core idle.
DEMO := tests/real tests/notebooks
ifneq ($(findstring tests/,$(ARGS)),)
test: .venv/installed-dev
	$(BIN)/python -m pytest $(ARGS)
else
test: .venv/installed-dev
	@$(MAKE) --no-print-directory --jobs=2 test-demo test-rest
endif

test-demo: .venv/installed-dev
	$(BIN)/python -m pytest $(ARGS) $(DEMO)

test-rest: .venv/installed-dev
	$(BIN)/python -m pytest $(ARGS) $(DEMO:%=--ignore=%)

check: .venv/installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m mypy

format: .venv/installed-dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.venv/installed: pyproject.toml | .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/installed-dev: pyproject.toml | .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@ .venv/installed

.venv:
	@test -n "$(PYTHON)" || { echo "Galley needs Python 3.11 or newer; none was found."; exit 1; }
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
