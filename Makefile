# Every verb builds .venv by itself when it is missing or older than pyproject.toml or constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP := $(BIN)/python -m pip install --quiet --no-warn-script-location
OWN := sb3-2.6.0 zoo tianshou rllib
PINS := --constraint constraints.txt --build-constraint constraints.txt

.PHONY: help demo test test-slow test-integrations $(OWN:%=test-with-%) check format bench docs clean

help:  ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/.train,report  ## the toy figure, then PPO, PPO(K) and weighted PPO(K) on Hopper-v4, then a page to open
	$(BIN)/gammaprime run fig_errors
	$(BIN)/gammaprime figure fig_errors
	$(BIN)/gammaprime run demo
	$(BIN)/gammaprime figure demo
	@echo "The page to open:"
	@$(BIN)/gammaprime report results/runs

test: $(VENV)/.dev  ## the default tests
	$(BIN)/pytest -n auto -m "not slow"

test-slow: $(VENV)/.dev  ## the tests that take minutes
	$(BIN)/pytest -n auto -m slow

test-integrations: $(OWN:%=test-with-%)  ## adapters with trainers that need environments of their own; -k goes on after a failure

test-with-sb3-2.6.0: TESTS := tests/integrations
test-with-zoo: TESTS := tests/integrations/test_zoo.py
test-with-tianshou: TESTS := tests/integrations/test_tianshou.py tests/integrations/test_missing_trainers.py
test-with-rllib: TESTS := tests/integrations/test_rllib.py tests/integrations/test_missing_trainers.py
$(OWN:%=test-with-%): test-with-%: $(VENV)/.%/.done
	$(VENV)/.$*/bin/pytest $(TESTS)

check: $(VENV)/.dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## let ruff write the format and the fixes it is sure of
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## side-by-side measurements against peers, as ratios in one run; CONTESTS="tabular jax" for some
	$(BIN)/python -m benchmarks $(CONTESTS)

docs: $(VENV)/.dev  ## the paper map and the pictures of the documentation
	$(BIN)/python docs/paper/make_map.py
	$(BIN)/python docs/scale/make_scale.py
	$(BIN)/python docs/results/make_results.py
	for spec in weights fig_errors; do $(BIN)/gammaprime run $$spec && $(BIN)/gammaprime figure $$spec --out docs/pictures || exit 1; done

clean:  ## remove the environment and everything that was generated
	rm -rf $(VENV) results/runs results/figures results/report.html .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/.pip: constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"Python 3.11 or newer is needed, $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.11 ...")'
	@echo "Building $(VENV): a few minutes the first time."
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint constraints.txt --upgrade pip
	@touch $@

# One stamp for each set of extras, so that a demo does not wait for the peers it never meets.
$(VENV)/.train,report $(VENV)/.dev $(VENV)/.bench: $(VENV)/.%: $(VENV)/.pip pyproject.toml constraints.txt
	$(PIP) $(PINS) --editable '.[$*]'
	@touch $@

# The oldest Stable-Baselines3 and RLlib want an older Gymnasium, RL Zoo an older python-dateutil, Tianshou older virtualenv and pandas.
$(VENV)/.sb3-2.6.0/.done: WANTED := stable-baselines3==2.6.0 sb3-contrib==2.6.0
$(VENV)/.sb3-2.6.0/.done: FREE := gymnasium|stable_baselines3|sb3_contrib
$(VENV)/.zoo/.done: WANTED := rl_zoo3 sb3-contrib
$(VENV)/.zoo/.done: FREE := python-dateutil
$(VENV)/.tianshou/.done: EXTRA := [tianshou]
$(VENV)/.tianshou/.done: WANTED := tianshou==2.0.1
$(VENV)/.tianshou/.done: FREE := virtualenv|filelock|python-dateutil|pandas
$(VENV)/.rllib/.done: EXTRA := [rllib]
$(VENV)/.rllib/.done: WANTED := ray==2.60.0
$(VENV)/.rllib/.done: FREE := gymnasium
$(OWN:%=$(VENV)/.%/.done): $(VENV)/.pip pyproject.toml constraints.txt
	$(PYTHON) -m venv $(@D)
	grep -vE '^($(FREE))==' constraints.txt > $(@D)/constraints.txt
	@for try in 1 2 3; do \
	  echo "Installing $(WANTED) into $(@D): try $$try of 3."; \
	  $(@D)/bin/python -m pip install --quiet --constraint $(@D)/constraints.txt --editable '.$(EXTRA)' pytest hypothesis $(WANTED) && touch $@ && exit 0; \
	  sleep 10; \
	done; \
	echo "$(@D): packages could not be installed, so its tests have not run.  pip says why above; make tries again."; exit 1
