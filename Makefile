# Every command sets up what it needs. On Windows run what stands behind a target: py -m venv .venv, then
# .venv\Scripts\pip install -e .[dev] -c constraints.txt, then .venv\Scripts\potluck demo, .venv\Scripts\pytest, ...

.DEFAULT_GOAL := help
.PHONY: help venv system demo test check format bench-overhead bench-governor bench-link bench-averaging bench-fuzz bench-codecs bench-install lab lab-faults dist clean

BIN := .venv/bin
STAMP := .venv/.installed
PIP_ARGS ?=
ARGS ?=

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP) ## Make .venv with everything installed (any Python from 3.11; PYTHON=... picks one, PIP_ARGS=... adds to pip)

$(STAMP): pyproject.toml constraints.txt packaging/make-venv.sh
	@PYTHON="$(PYTHON)" sh packaging/make-venv.sh .venv
	@$(BIN)/python -m pip install --quiet -e ".[dev]" -c constraints.txt $(PIP_ARGS)
	@touch $@

system:
	@sh packaging/linux/install-system-packages.sh tests

demo: venv system ## Train with three peers here and watch (MINUTES=3 ends by itself, HEADLESS=1 needs no display)
	@$(BIN)/potluck demo $(if $(MINUTES),--minutes $(MINUTES)) $(if $(HEADLESS),--headless) $(ARGS)

test: venv system ## Run all tests (ARGS="-k name -x" goes to pytest)
	$(BIN)/python -m pytest $(ARGS)

check: venv ## Formatting, lint, types, import rules, spelling, house rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m tests.helpers.house_checks

format: venv ## Format the code and mend what lint can mend
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .

bench-overhead: venv ## What the engine costs over plain PyTorch, as one JSON line
	@$(BIN)/python -m tests.benchmarks.overhead $(ARGS)

bench-governor: venv system ## How soon it makes room, how well it holds its limits, as one JSON line
	@$(BIN)/python -m tests.benchmarks.governor $(ARGS)

bench-link: venv system ## What a link makes of lines with delay and losses, in network namespaces (root), as one JSON line
	@$(BIN)/python -m tests.benchmarks.link $(ARGS)

bench-averaging: venv system ## How long 8 volunteers take to average, on loopback and on unequal lines (root), as one JSON line
	@$(BIN)/python -m tests.benchmarks.averaging $(ARGS)

bench-fuzz: venv ## Every decoder under fire for SECONDS=600, as one JSON line
	@$(BIN)/python -m tests.fuzz.longer $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

bench-codecs: venv ## How fast parts are encoded and decoded, as one JSON line
	@OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks.codecs $(ARGS)

lab: venv system ## Which pairs of home routers connect, in network namespaces (root); a table and one JSON line
	@$(BIN)/python -m tests.lab.matrix $(ARGS)

lab-faults: venv system ## What links make of cut lines, new addresses, a dead hub or relay, rubbish and floods (root; about 6 minutes)
	@$(BIN)/python -m tests.lab.faults $(ARGS)

dist: venv ## Build the packages that this system can build, into dist/, with checksums
	@$(BIN)/python packaging/linux/build_deb.py dist
	@cd dist && sha256sum *.deb > SHA256SUMS && cat SHA256SUMS

bench-install: venv system ## The package in a clean Debian tree (root): install, train, update, remove; as one JSON line
	@command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
	@$(BIN)/python -m tests.benchmarks.install $(ARGS)

clean: ## Remove .venv and what tools left behind
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build *.egg-info
