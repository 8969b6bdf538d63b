# Two commands do everything on a fresh machine: `make serve` and `make test`. Both set up .venv by themselves.
# `make test-all` is what CI runs.

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MADE := $(VENV)/.made
INSTALLED := $(VENV)/.installed
SERVER := $(VENV)/.server-installed
ENGINES := $(VENV)/.engines-installed
CLIENTS := $(patsubst tests/clients/locks/%.txt,$(VENV)/clients/%/.installed,$(wildcard tests/clients/locks/*.txt))
JAVASCRIPT := tests/clients/javascript/node_modules/.package-lock.json
TYPESCRIPT := tests/typescript/node_modules/.package-lock.json
PAGE_TOOLS := ui/node_modules/.package-lock.json
PAGE := src/harmonia/serve/page/index.html
PAGE_SOURCES := $(shell find ui/src -type f) ui/index.html ui/package.json ui/tsconfig.json ui/vite.config.ts
BROWSER := $(VENV)/.headless-browser-looked-for
EXTRAS := .[dropin,fast,repair,chat,mcp,server,grammar]
PYTHONS := 3.11 3.12 3.13

# What `make test` runs; `make test-all` runs the rest too.
PYTEST := $(BIN)/pytest
COVERED := $(BIN)/coverage run -m pytest
QUICK := not exhaustive and not engines and not clients and not browser
# The format, the drop-in, the run loop and the server.
PORTABLE := $(addprefix tests/,vocabulary messages schema tool_definitions renderer parser parts history interchange \
  families grammar inspection openai_harmony run serve)

# The tests start hundreds of processes. Where Python was told to keep nothing that it compiled, as in many containers,
# each of them would compile all of Harmonia anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve page wheel demo test test-all test-beside test-page test-page-logic test-page-browser test-pythons \
  test-exhaustive test-engines test-clients coverage coverage-report screenshots client-locks fuzz fuzz-server lint format \
  bench bench-server shape docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# With reasoning shown, which suits a trial. 130 is what Ctrl-C ends it with, and no error.
serve: $(SERVER)  ## Install what is needed and start the server (SERVE='--port 9000' adds flags); Ctrl-C stops it
	@$(MAKE) -s page || echo "left out: the page, which could not be built (see above)" >&2
	@$(BIN)/harmonia serve --engine auto --analysis shown --store sqlite:///.harmonia/responses.sqlite3 \
	  --seal-key-file .harmonia/seal-keys.json $(SERVE) || { code=$$?; test $$code -eq 130 || exit $$code; }

page: $(PAGE)  ## Build the page from ui/, where Node.js is there

wheel: $(MADE) $(PAGE)  ## Build the distribution with the page in it, into dist/
	@test -f $(PAGE) || { echo "a wheel needs the page, and the page needs Node.js 20 or newer" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet hatchling
	$(BIN)/python -m hatchling build

demo: $(INSTALLED)  ## Without a server: a question with a tool, and a broken answer inspected
	@echo '> What is the weather in Paris?' >&2
	@$(BIN)/harmonia chat -m demo --no-save -T examples/weather.py -R -u 'What is the weather in Paris?' </dev/null
	@echo
	@$(BIN)/harmonia inspect --role assistant examples/broken-answer.txt
	@printf '\nTry: %s\n     %s\n     %s\n' \
	  "$(BIN)/harmonia chat -T examples/weather.py   (with the engine that is found)" \
	  "$(BIN)/harmonia chat -m demo -T examples/weather.py   (with no model)" \
	  "$(BIN)/harmonia render examples/weather.json" >&2

# The tests of the page wait for the browser much of the time, and others for processes; so they run side by side.
test: $(INSTALLED) $(TYPESCRIPT) $(PAGE) $(BROWSER)  ## Check style and types and run the tests: minutes
	@scripts/side_by_side 'make --no-print-directory test-beside' $(PYTEST) -n auto -m '$(QUICK)'

# Everything, each test once. The tests of `make test` run here with their branches measured.
test-all:  ## Run every test, the fuzzers and short benchmarks: what CI runs
	@rm -rf .coverage
	@$(MAKE) --no-print-directory test PYTEST='$(COVERED)'
	@$(MAKE) --no-print-directory coverage-report
	@$(MAKE) --no-print-directory shape
	@$(MAKE) --no-print-directory test-pythons
	@$(MAKE) --no-print-directory test-clients
	@$(MAKE) --no-print-directory test-engines
	@$(MAKE) --no-print-directory test-exhaustive
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),120)
	@$(MAKE) --no-print-directory fuzz-server FUZZ_SECONDS=$(or $(FUZZ_SECONDS),90) FUZZ_CASES=$(or $(FUZZ_CASES),30)
	@$(MAKE) --no-print-directory bench BENCH=--quick
	@$(MAKE) --no-print-directory bench-server BENCH=--quick

coverage: $(INSTALLED) $(TYPESCRIPT)  ## Run the tests and report the branches that they do not reach
	@rm -rf .coverage
	$(COVERED) -n auto -m '$(QUICK)'
	@$(MAKE) --no-print-directory coverage-report

coverage-report:
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

# What runs beside the tests. Each needs what the target that calls it has made.
test-beside:
	@$(MAKE) --no-print-directory lint test-page-logic test-page-browser

test-page: $(INSTALLED) $(PAGE) $(BROWSER) test-page-logic test-page-browser  ## The page: its logic, and its behaviour in a real browser

test-page-logic:
	@if [ -f $(PAGE_TOOLS) ]; then cd ui && npm run --silent types && npm run --silent test; \
	else echo "left out: the tests of the page (no npm)" >&2; fi

# A run of its own: Playwright keeps an event loop in the thread of its tests, which no other test here can live with.
test-page-browser:
	$(BIN)/pytest -n auto -m 'browser and not exhaustive' tests/page

screenshots: $(INSTALLED) $(PAGE) $(BROWSER)  ## Take the pictures of the README anew
	HARMONIA_TEST_SCREENSHOTS=docs/images $(BIN)/pytest -m browser tests/page/test_screenshots.py

test-exhaustive: $(INSTALLED) $(PAGE) $(BROWSER)  ## Every code point, the large fuzz, large traces in a browser: minutes
	$(BIN)/pytest -n auto -m 'exhaustive and not browser'
	$(BIN)/pytest -n auto -m 'browser and exhaustive' tests/page

# Each Python has an environment of its own; .venv's Python runs these tests in `make test` already.
test-pythons: $(INSTALLED)  ## The format, the drop-in, runs and the server on each Python from 3.11 on that is here
	@own=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	for version in $(PYTHONS); do \
	  if [ $$version = $$own ]; then echo "$$version: the tests of .venv" >&2; continue; fi; \
	  found=$$(scripts/find_python $$version); \
	  if [ -z "$$found" ]; then echo "left out: Python $$version, which is not here" >&2; continue; fi; \
	  $(MAKE) --no-print-directory $(VENV)/pythons/$$version/.installed PYTHON="$$found" || exit; \
	  $(VENV)/pythons/$$version/bin/pytest -n auto -m '$(QUICK)' $(PORTABLE) || exit; \
	done

test-engines: $(ENGINES)  ## A tiny gpt-oss in transformers and in llama.cpp, for real
	$(BIN)/pytest -m engines

test-clients: $(INSTALLED) $(CLIENTS) $(JAVASCRIPT)  ## SDKs, agent frameworks and coding agents, against the server
	$(BIN)/pytest -n auto -m clients tests/clients

client-locks: $(INSTALLED)  ## Lock the clients anew, after a version in tests/clients/clients.toml has changed
	$(BIN)/python tools/lock_clients.py

fuzz: $(INSTALLED)  ## Fuzz the parser (FUZZ_SECONDS=600); what it finds is written to .fuzz
	@mkdir -p .fuzz/corpus
	$(BIN)/python fuzz/fuzz_parser.py -max_total_time=$(or $(FUZZ_SECONDS),600) -max_len=400 -artifact_prefix=.fuzz/ \
	  .fuzz/corpus fuzz/corpus

fuzz-server: $(INSTALLED)  ## Fuzz the server (FUZZ_SECONDS=600), and ask what its OpenAPI document allows
	$(BIN)/python fuzz/fuzz_document.py --cases $(or $(FUZZ_CASES),60)
	$(BIN)/python fuzz/flood_connections.py --connections $(or $(FUZZ_CONNECTIONS),1100)
	$(BIN)/python fuzz/fuzz_server.py --seconds $(or $(FUZZ_SECONDS),600)

lint: $(INSTALLED)  ## Style and strict types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@if command -v node >/dev/null; then $(BIN)/pyright --level error; \
	else echo "left out: the check of types (no node)" >&2; fi

format: $(INSTALLED)  ## Put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED)  ## Compare with openai-harmony in one run (BENCH=--quick for a short one)
	$(BIN)/python -m benchmarks $(BENCH)

bench-server: $(INSTALLED)  ## Compare the server with its own stack sending prepared bytes (BENCH=--quick)
	$(BIN)/python -m benchmarks.server $(BENCH)

shape: $(INSTALLED)  ## Measure the house: lines, modules, and what one request passes through; fails where they grow
	$(BIN)/python tools/shape.py

docs: $(INSTALLED)  ## Write the pages that are made from code: the command line and the faults
	$(BIN)/python tools/write_docs.py

clean:  ## Remove what the other targets made
	rm -rf $(VENV) .harmonia tests/typescript/node_modules tests/clients/javascript/node_modules ui/node_modules \
	  src/harmonia/serve/page \
	  .pytest_cache .ruff_cache .hypothesis .fuzz .coverage dist

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Harmonia needs Python 3.11 or newer; set PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { scripts/install_system_packages python3-venv && $(PYTHON) -m venv $(VENV); }
	@touch $@

# What the server needs and no more, so that the first `make serve` is quick.
$(SERVER): pyproject.toml | $(MADE)
	$(BIN)/python -m pip install --quiet --editable '.[server,mcp]'
	@touch $@

$(INSTALLED): pyproject.toml | $(MADE)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '$(EXTRAS)' --group dev
	@touch $@ $(SERVER)

$(ENGINES): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --group engines
	$(BIN)/python -m pip install --quiet --no-deps 'xgrammar>=0.2.8' apache-tvm-ffi
	@touch $@

$(VENV)/pythons/%/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(@D)/bin/python -m pip install --quiet --editable '$(EXTRAS)' --group tests
	@touch $@

$(VENV)/clients/%/.installed: tests/clients/locks/%.txt | $(INSTALLED)
	$(BIN)/python -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet --no-deps --requirement $<
	@touch $@

# Codex, opencode and the SDKs in JavaScript: a gigabyte. Not `npm ci`: it wants every platform's build of opencode in the
# lock, and a registry need not have them all.
$(JAVASCRIPT): tests/clients/javascript/package-lock.json
	@command -v npm >/dev/null || scripts/install_system_packages nodejs npm || true
	@if command -v npm >/dev/null; then npm install --no-save --silent --no-audit --no-fund --prefix $(<D) && touch $@; \
	else echo "left out: Codex and the clients in JavaScript (no npm), so their tests are skipped" >&2; fi

$(PAGE_TOOLS): ui/package-lock.json
	@command -v npm >/dev/null || scripts/install_system_packages nodejs npm || true
	@if command -v npm >/dev/null; then npm ci --loglevel=error --no-audit --no-fund --prefix ui >/dev/null && touch $@; fi

# The page is built where Node.js is there; the server does without it, and says how to get it.
$(PAGE): $(PAGE_TOOLS) $(PAGE_SOURCES)
	@if [ -f $(PAGE_TOOLS) ]; then npm run --silent build --prefix ui -- --logLevel warn && touch $@; \
	else echo "left out: the page (no npm); install Node.js 20 or newer and run make page" >&2; fi

# The headless shell is the same browser without windows, and twice as quick; a Chromium will do.
$(BROWSER): | $(MADE)
	@command -v chromium-headless-shell >/dev/null || command -v chrome-headless-shell >/dev/null || \
	  scripts/install_system_packages chromium-headless-shell fonts-dejavu-core || \
	  command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  scripts/install_system_packages chromium fonts-dejavu-core || \
	  echo "left out: the tests in a browser (no Chromium)" >&2
	@touch $@

$(TYPESCRIPT): tests/typescript/package-lock.json
	@command -v npm >/dev/null || scripts/install_system_packages nodejs npm || true
	@if command -v npm >/dev/null; then npm ci --silent --no-audit --no-fund --prefix tests/typescript && touch $@; \
	else echo "left out: the TypeScript compiler (no npm), so the tests that need it are skipped" >&2; fi
