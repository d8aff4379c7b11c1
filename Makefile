# Two commands do everything on a fresh machine: `make demo` and `make test`. Both make their own environment in .venv
# and install into it again only when pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1

.PHONY: demo test check lint benchmarks clean

demo: .venv/installed
	$(BIN)/python -m benchmark demo

test: .venv/installed
	$(BIN)/python -m pytest -n auto

check: lint test

lint: .venv/installed
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy

benchmarks: .venv/installed
	missed=; for script in tests/benchmarks/*.py; do $(BIN)/python "$$script" || missed="$$missed $$script"; done; \
	  test -z "$$missed" || { echo "not passed here:$$missed"; exit 1; }

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$$($(PYTHON) --version) is too old: Python 3.11 or newer is needed (make PYTHON=python3.11)"; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv runs
