# A fresh machine needs Python 3.11 to 3.13 with pip, and make; everything else is installed into .venv.
#
#   make demo              train a small GPT, compiled
#   make test              every check there is; what continuous integration runs
#   make lint | lit | pytest   parts of it
#   make test-avx2         the same as on a processor without AVX-512: dmc's code, PyTorch's, oneDNN's and MKL's
#   make matrix            every model under every plan on a mesh, and the tests that take long; writes the table into
#                          docs/status.md; then an hour of random steps against PyTorch eager
#   make docs              the documentation site, in build/site
#   make generate          write what is made from tablegen/ (needs LLVM 22's mlir-tblgen and llvm-tblgen)
#   make check-generated   fail where the committed files differ from what tablegen/ gives
#
# PYTHON=python3.12 chooses the interpreter, PIP_ARGS="--index-url ..." reaches pip, WORKERS=4 sets parallel tests.
# TORCH=2.14.1 takes another version of PyTorch, in an environment of its own, .venv-torch-2.14.1.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := test
.DELETE_ON_ERROR:

PYTHON ?= python3
PIP_ARGS ?=
WORKERS ?= 2
TORCH ?= $(MAIN_TORCH)

MAIN_TORCH := 2.13.0
OTHER_TORCH := $(filter-out $(MAIN_TORCH),$(TORCH))
VENV := .venv$(if $(OTHER_TORCH),-torch-$(OTHER_TORCH))
BIN := $(CURDIR)/$(VENV)/bin
INSTALLED := $(VENV)/.installed
SITE_TOOLS := $(VENV)/.site-tools
GENERATION := build/generated

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-avx2 lint lit pytest matrix docs generate check-generated clean

demo: $(INSTALLED)
	@$(BIN)/python examples/train_gpt.py

# Type checks take one core, so lit's tests run beside them. Types are those of one version of PyTorch.
test: $(INSTALLED)
	@$(MAKE) --no-print-directory -j 2 $(if $(OTHER_TORCH),,lint) lit
	@$(MAKE) --no-print-directory pytest

test-avx2: export ATEN_CPU_CAPABILITY := avx2
test-avx2: export ONEDNN_MAX_CPU_ISA := AVX2
test-avx2: export MKL_ENABLE_INSTRUCTIONS := AVX2
test-avx2: export DMC_TEST_PROCESSOR := x86-64-v3
test-avx2: test

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

lit: $(INSTALLED)
	@$(BIN)/lit -j$(WORKERS) -sv tests

pytest: $(INSTALLED)
	@$(BIN)/python -m pytest -n $(WORKERS)

matrix: $(INSTALLED)
	@$(BIN)/python -m pytest -n $(WORKERS) -m large
	@$(BIN)/python -m tests.matrix --jobs $(WORKERS) --write
	@$(BIN)/python -m tests.fuzz --jobs $(WORKERS) --minutes 60

docs: $(SITE_TOOLS)
	@$(BIN)/zensical build --strict
	@echo "open build/site/index.html"

generate: $(GENERATION)/build.ninja
	@$(BIN)/cmake --build $(GENERATION) --target dialect

check-generated: $(GENERATION)/build.ninja
	@$(BIN)/cmake --build $(GENERATION) --target check-generated || { \
	    echo "error: generated files are stale; run \`make generate\` and commit what it changes" >&2; exit 1; }

clean:
	@rm -rf build .venv .venv-torch-*

$(GENERATION)/build.ninja: CMakeLists.txt $(INSTALLED)
	@$(BIN)/cmake -S . -B $(GENERATION) -G Ninja --log-level=WARNING \
	    -DCMAKE_MAKE_PROGRAM=$(BIN)/ninja -DPython3_EXECUTABLE=$(BIN)/python

# An environment that was made without a pip of its own is filled by the pip of $(PYTHON).
$(INSTALLED): EXTRAS := compile,dev
$(INSTALLED): PINS := 'torch==$(TORCH)'
$(SITE_TOOLS): EXTRAS := docs
$(INSTALLED) $(SITE_TOOLS): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	    echo "error: dmc needs Python 3.11, 3.12 or 3.13; try \`make PYTHON=python3.12\`" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) 2>/dev/null || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@echo "installing dmc with what it needs ($(EXTRAS)) into $(VENV) (some minutes)"
	@if $(BIN)/python -m pip --version >/dev/null 2>&1; then pip="$(BIN)/python -m pip"; \
	    else pip="$(PYTHON) -m pip --python $(BIN)/python"; fi; \
	    $$pip install --quiet $(PIP_ARGS) --editable '.[$(EXTRAS)]' $(PINS)
	@touch $@
