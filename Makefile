# `make up` and `make test` need python3 (3.11 or newer) and make; everything else they fetch themselves.

# The first of these that is new enough; `make PYTHON=/path/to/python3 up` chooses another.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
# Open WebUI (2.9 GB) and what drives a browser before it; only for `make test-openwebui`.
OPENWEBUI := .venv-openwebui
OPENWEBUI_VENV ?= $(CURDIR)/$(OPENWEBUI)
OPENWEBUI_NODE ?= $(CURDIR)/$(OPENWEBUI)/node
OPENWEBUI_READY := $(if $(filter file,$(origin OPENWEBUI_VENV)),$(OPENWEBUI)/.installed)
# The official clients for Node, which the conformance tests drive.
NODE_CLIENTS := tests/conformance/node
# The schemas of custom resources that the Helm chart makes.
NODE_SCHEMAS := tests/deploy/node
# Four at a time, though CI has two cores: more than half of the suite's time is waiting (for leases, deadlines, processes
# that start), which two at a time leave a core idle for. Each works through a run of files and takes over what another
# has left at its end, so that what a file's tests share is started once.
PYTEST_FLAGS ?= -n 4 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help up test test-all test-openwebui chaos soak bench-peers check format docs docs-site pins compatibility clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Doublebuffer needs Python 3.11 or newer, and found none as python3." >&2; exit 2; }
	@echo "Making $(VENV) and installing into it; this is done once."
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 2; }

# Installed, and still what pyproject.toml asks for: the stamps are as old as the last installation.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $(VENV)/.installed $@

%/node_modules/.installed: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo "The tests need npm and Node 20 or newer (Debian: apt-get install npm)." >&2; exit 2; }
	@npm ci --silent --no-audit --no-fund --prefix $*
	@touch $@

$(BIN)/helm: | $(VENV)/.installed-test
	@$(BIN)/python -m tests.deploy.get_helm $@

up: $(VENV)/.installed ## install, then run gateway and worker on whatever engine this machine has
	@exec $(BIN)/doublebuffer up

test: $(VENV)/.installed-test $(NODE_CLIENTS)/node_modules/.installed ## the test suite, but for what needs programs from Debian, or helm
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not debian and not openwebui" $(TESTS)

test-all: $(VENV)/.installed-test $(NODE_CLIENTS)/node_modules/.installed $(NODE_SCHEMAS)/node_modules/.installed $(BIN)/helm ## the whole test suite
	$(BIN)/python -m pytest $(PYTEST_FLAGS) -m "not openwebui" $(TESTS)

$(OPENWEBUI)/.installed: | $(BIN)/python
	@echo "Installing Open WebUI into $(OPENWEBUI): 2.9 GB, several minutes, once."
	@$(PYTHON) -m venv $(OPENWEBUI)
	@$(OPENWEBUI)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(OPENWEBUI)/bin/python -m pip install --quiet --disable-pip-version-check open-webui==0.12.4
	@npm install --silent --no-audit --no-fund --prefix $(OPENWEBUI)/node playwright-core@1.65.1
	@touch $@

test-openwebui: $(VENV)/.installed-test $(OPENWEBUI_READY) ## the real Open WebUI in a real browser; needs chromium and npm
	OPENWEBUI_VENV=$(abspath $(OPENWEBUI_VENV)) OPENWEBUI_NODE=$(abspath $(OPENWEBUI_NODE)) \
		$(BIN)/python -m pytest -m openwebui tests/openwebui

chaos: $(VENV)/.installed-test ## real processes under a seeded stream of faults; SECONDS=600 SEEDS=3 CLIENTS=100
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),600) --seeds $(or $(SEEDS),3) --clients $(or $(CLIENTS),100)

soak: $(VENV)/.installed-test ## full load for half an hour, and whose memory grows; MINUTES=30 CLIENTS=256
	$(BIN)/python -m tests.chaos.soak --minutes $(or $(MINUTES),30) --clients $(or $(CLIENTS),256)

# Each in an environment of its own: they want other versions of the same libraries, and none of them is ours.
PEERS := bench/peers
PEER_SPECS := vllm-router=vllm-router==0.1.17 litellm=litellm[proxy]==1.80.11 openai-rq=openai-rq==0.1.2

bench-peers: $(foreach spec,$(PEER_SPECS),$(PEERS)/$(firstword $(subst =, ,$(spec)))/.installed) ## what `doublebuffer bench overhead` measures beside ours; about 1 GB
	@command -v nginx /usr/sbin/nginx >/dev/null || apt-get install --yes --quiet nginx || \
		echo "nginx is not there; on Debian it is installed by: apt-get install nginx" >&2

$(PEERS)/%/.installed: | $(BIN)/python
	@echo "Installing $* into $(PEERS)/$*."
	@$(PYTHON) -m venv $(PEERS)/$*
	@$(PEERS)/$*/bin/python -m pip install --quiet --disable-pip-version-check \
		'$(patsubst $*=%,%,$(filter $*=%,$(PEER_SPECS)))'
	@touch $@

check: $(VENV)/.installed-test docs-site ## style, types, the arrows between the parts, and the pages' links
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-test ## put the code into form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed ## write docs/settings.md anew from the code
	$(BIN)/python -m doublebuffer.settings_page > docs/settings.md.new
	mv docs/settings.md.new docs/settings.md

# The notice that is left out advertises another program.
docs-site: $(VENV)/.installed-docs ## the pages as a site, in build/site; ends with an error if a link or an anchor leads nowhere
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

pins: $(VENV)/.installed ## write deploy/docker/requirements.txt anew: what the image installs, each by its hash
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@echo "# What the image installs, each by its hash. Made by \`make pins\` from pyproject.toml." > deploy/docker/requirements.new
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --only-binary :all: \
		--no-header --no-annotate --no-emit-index-url --extra otel --extra gpu pyproject.toml >> deploy/docker/requirements.new
	mv deploy/docker/requirements.new deploy/docker/requirements.txt

compatibility: $(VENV)/.installed-test $(NODE_CLIENTS)/node_modules/.installed ## write docs/compatibility.md anew from what the official clients find
	$(BIN)/python -m tests.conformance

clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) $(NODE_CLIENTS)/node_modules $(NODE_SCHEMAS)/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
