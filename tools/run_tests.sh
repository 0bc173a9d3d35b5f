#!/usr/bin/env bash
# Run the whole test-suite with the project's virtual environment, in two lanes side by side: the real clusters,
# images, fresh installations and LMDeploy, which mostly wait, and everything else. Nothing is tried twice.
#   tools/run_tests.sh [pytest options]          the options go to both lanes
#   tools/run_tests.sh --quick [pytest options]  without clusters, images, LMDeploy and what is marked slow, in two halves
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

quick() { # LANE PYTEST-OPTIONS...: every second test file, beginning with the first or the second
  local components files # a file that is named is not ignored, so those of the components are left out here
  components="^($(IFS='|' && echo "${COMPONENTS[*]}"))"
  mapfile -t files < <(find tests -name 'test_*.py' | sort | grep -vE "$components" | awk "NR % 2 == $1")
  lane "quick-$1" "${files[@]}" -m "not slow and not cluster and not container" "${@:2}"
}

components() {
  # A second environment with a CPU torch; where it cannot be had, this says so and its tests are skipped.
  tools/install_lmdeploy_cpu.sh || echo "LMDEPLOY CONTRACT TESTS WILL BE SKIPPED: ITS INSTALLATION FAILED"
  lane components "${COMPONENTS[@]}" "$@"
}

quick=0
if [ "${1:-}" = --quick ]; then
  quick=1
  shift
fi
other_lane() { if ((quick)); then quick 0 "$@"; else components "$@"; fi; }
first_lane() { if ((quick)); then quick 1 "$@"; else lane package tests "${COMPONENTS[@]/#/--ignore=}" "$@"; fi; }

set -m # a process group of its own, so that all of it can be stopped
other_lane "$@" >"$LOG" 2>&1 &
background=$!
set +m
trap 'kill -- "-$background" 2>/dev/null || true; rm -f "$LOG"' EXIT

code=0 other=0
first_lane "$@" || code=$?
wait "$background" || other=$?
echo "=== the other lane, which ran meanwhile ==="
cat "$LOG"
exit $((code > other ? code : other))
