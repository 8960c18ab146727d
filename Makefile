# The whole interface for developers. `make` alone lists it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help venv test coverage battery lint types docs package bench compare clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv:  ## Make .venv with everything development needs
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev,images,battery,docs]'

test:  ## Run all tests (RESIDUUM_DATA=folder for those on real data)
	$(BIN)/python -m pytest

coverage:  ## Run all tests and show branch coverage for each room (htmlcov/ has the lines)
	$(BIN)/python -m pytest --cov --cov-report=html --cov-report=json:htmlcov/coverage.json
	$(BIN)/python tests/coverage_by_room.py htmlcov/coverage.json

battery:  ## Run the battery, about an hour (QUICK=1 for a share of it)
	$(BIN)/python -m battery $(if $(QUICK),--quick)

lint:  ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:  ## Check types
	$(BIN)/mypy

docs: $(BIN)/sphinx-build  ## Build the site in docs/_build/html; a warning is an error
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

$(BIN)/sphinx-build:
	$(PYTHON) -m venv $(dir $(BIN))
	$(BIN)/pip install -q -e '.[docs]'

package: $(BIN)/twine  ## Build sdist and wheel in dist/ and check them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

$(BIN)/twine:
	$(PYTHON) -m venv $(dir $(BIN))
	$(BIN)/pip install -q build twine

bench:  ## Time the solvers against their peers and the bare matrix product
	$(BIN)/residuum bench
	$(BIN)/python benchmarks/core.py

compare:  ## All methods on the bundled digits
	$(BIN)/residuum compare

clean:  ## Remove what the tools leave behind
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist htmlcov docs/_build docs/generated docs/gallery
	find src tests battery benchmarks -name __pycache__ -type d -exec rm -rf {} +
