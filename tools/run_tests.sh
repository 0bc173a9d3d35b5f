#!/usr/bin/env bash
# Run the whole test-suite with the project's virtual environment, in two lanes side by side: the real clusters,
# images and LMDeploy, which mostly wait, and everything else. What fails is tried once more, and said aloud.
#   tools/run_tests.sh [pytest options]        the options go to both lanes
# A test that passes only at the second try is a defect to mend, but not a reason to refuse everybody's work: real
# Slurm, MPI, containers and killed processes share two cores here with whatever else the machine does.
# Exit: 0 all passed, 1 something failed twice, otherwise pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
COMPONENTS=(tests/cluster tests/containers tests/tools/test_slurm_sandbox.py tests/engines/test_lmdeploy.py)
LOG=$(mktemp)

lane() { # NAME PYTEST-OPTIONS...
  local code=0 pytest=("$VENV/bin/python" -m pytest --durations=12 -o "cache_dir=.pytest_cache/$1" "${@:2}")
  "${pytest[@]}" || code=$?
  [ "$code" != 5 ] || return 0 # the options left nothing to this lane
  [ "$code" = 1 ] || return "$code"
  echo "SOME TESTS FAILED; THEY ARE TRIED ONCE MORE:" >&2
  "${pytest[@]}" --last-failed --last-failed-no-failures none
}

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
