#!/usr/bin/env bash
# Run the whole test-suite with the project's virtual environment, in two lanes side by side: the real clusters,
# images, fresh installations and LMDeploy, which mostly wait, and everything else. Nothing is tried twice.
#   tools/run_tests.sh [pytest options]          the options go to both lanes
#   tools/run_tests.sh --quick [pytest options]  without clusters, images, LMDeploy and what is marked slow
# Exit: 0 all passed, otherwise pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
COMPONENTS=(tests/cluster tests/containers tests/package tests/tools/test_slurm_sandbox.py tests/engines/lmdeploy
  tests/tools/test_bench_grammar.py)
LOG=$(mktemp)

lane() { # NAME PYTEST-OPTIONS...
  local code=0
  "$VENV/bin/python" -m pytest --durations=12 -o "cache_dir=.pytest_cache/$1" "${@:2}" || code=$?
  [ "$code" != 5 ] || return 0 # the options left nothing to this lane
  return "$code"
}

if [ "${1:-}" = --quick ]; then
  lane quick tests "${COMPONENTS[@]/#/--ignore=}" -m "not slow and not cluster and not container" "${@:2}"
  exit
fi

components() {
  # A second environment with a CPU torch; where it cannot be had, this says so and its tests are skipped.
  tools/install_lmdeploy_cpu.sh || echo "LMDEPLOY CONTRACT TESTS WILL BE SKIPPED: ITS INSTALLATION FAILED"
  lane components "${COMPONENTS[@]}" "$@"
}

set -m # a process group of its own, so that all of it can be stopped
components "$@" >"$LOG" 2>&1 &
background=$!
set +m
trap 'kill -- "-$background" 2>/dev/null || true; rm -f "$LOG"' EXIT

code=0 other=0
lane package tests "${COMPONENTS[@]/#/--ignore=}" "$@" || code=$?
wait "$background" || other=$?
echo "=== real clusters, images and LMDeploy, which ran meanwhile ==="
cat "$LOG"
exit $((code > other ? code : other))
