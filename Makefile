# The two commands of a newcomer: make demo, make test. Everything else is `kgqa --help`.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
export VENV

.PHONY: help demo demo-kill test test-quick test-servers venv kernels lint system lmdeploy clean

help:
	@echo "make demo    install into $(VENV) and make a small dataset from the HPO graph in runs/demo"
	@echo "make test    install with test extras and run the whole test-suite"
	@echo "make test-quick  the same without real clusters, images, LMDeploy and slow tests (CONTRIBUTING.md): some minutes"
	@echo "make test-servers  whole runs through real llama.cpp and vLLM servers on the CPU (3.5 GB, for a schedule)"
	@echo "make demo-kill   a scripted run, killed three times with kill -9, and its dataset's bytes compared"
	@echo "make lint    ruff, mypy and shellcheck only"
	@echo "make clean   remove $(VENV) and runs/demo"

demo:
	@tools/setup_venv.sh cpu,hpo,report
	@$(BIN)/kgqa -q all configs/fact.yaml runs/demo-facts
	@$(BIN)/kgqa -q all configs/path.yaml runs/demo-paths
	@$(BIN)/kgqa show runs/demo-facts -n 5
	@echo "that was without a model; now graphlets, worded and judged by a demo model that shows the machinery, not knowledge"
	@$(BIN)/kgqa all configs/demo.yaml runs/demo
	@$(BIN)/kgqa show runs/demo-paths -n 5
	@echo "pages    runs/demo-facts/report/index.html and runs/demo/report/index.html"

system:
	@tools/install_system.sh all

lmdeploy: # a second environment with a CPU torch; where it cannot be had, its tests are skipped
	@tools/install_lmdeploy_cpu.sh || echo "LMDEPLOY CONTRACT TESTS WILL BE SKIPPED: ITS INSTALLATION FAILED"

venv:
	@tools/setup_venv.sh test

kernels: venv # all tests that sample wait for them (tests/conftest.py)
	@$(BIN)/python -m kgqa_hpc.compile_kernels

lint: venv
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@grep -rlE '^#!/(usr/bin/env |bin/)(ba)?sh' .ci containers slurm tools | xargs -r $(BIN)/shellcheck -x -P SCRIPTDIR

test: # installation waits for the network and for one core, so its parts run side by side, kernels are compiled meanwhile
	@$(MAKE) --no-print-directory --jobs=4 --output-sync=line kernels lint system lmdeploy
	@PATH="$(abspath $(BIN)):$$PATH" tools/run_tests.sh $(PYTEST)

test-quick: lint
	@PATH="$(abspath $(BIN)):$$PATH" tools/run_tests.sh --quick $(PYTEST)

test-servers:
	@tools/setup_venv.sh test,cpu,hpo,report
	@PATH="$(abspath $(BIN)):$$PATH" tools/test_servers.sh $(PYTEST)

demo-kill:
	@tools/setup_venv.sh cpu,hpo,report
	@PATH="$(abspath $(BIN)):$$PATH" tools/demo_kill.sh

clean:
	rm -rf $(VENV) .venv-lmdeploy .venv-vllm runs/demo runs/demo-facts runs/demo-paths
