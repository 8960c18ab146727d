# The whole interface for developers. `make` alone lists it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help venv test battery lint types bench compare clean

help:  ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv:  ## Make .venv with everything development needs
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev,images,battery]'

test:  ## Run all tests (RESIDUUM_DATA=folder for those on real data)
	$(BIN)/python -m pytest

battery:  ## Run the battery, about an hour (QUICK=1 for a share of it)
	$(BIN)/python -m battery $(if $(QUICK),--quick)

lint:  ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:  ## Check types
	$(BIN)/mypy

bench:  ## Time the solvers against their peers and the bare matrix product
	$(BIN)/residuum bench
	$(BIN)/python benchmarks/core.py

compare:  ## All methods on the bundled digits
	$(BIN)/residuum compare

clean:  ## Remove what the tools leave behind
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find src tests battery benchmarks -name __pycache__ -type d -exec rm -rf {} +
