#!/usr/bin/env bash
# Run the whole test-suite with the project's virtual environment, in two lanes side by side: the real clusters,
# images, fresh installations and LMDeploy, which mostly wait, and everything else, in a process for each core.
# Nothing is tried twice.
#   tools/run_tests.sh [pytest options]          the options go to both lanes
#   tools/run_tests.sh --quick [pytest options]  without clusters, images, LMDeploy and what is marked slow
# KGQA_TEST_PROCESSES is another number of processes. Exit: 0 all passed, otherwise pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
COMPONENTS=(tests/cluster tests/containers tests/package tests/tools/test_slurm_sandbox.py tests/engines/lmdeploy
  tests/tools/test_bench_grammar.py tests/test_walls.py)
CORES=$(nproc)
unset PYTHONDONTWRITEBYTECODE # else each of the thousand processes that tests start compiles the package anew

# The tests sync thousands of small files. A memory file system for them saves minutes; it must run programs, too.
memory_folder() {
  local folder available
  available=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "${available:-0}" -ge 8 ] || return 1
  [ "$(df --output=avail -BG /dev/shm 2>/dev/null | tail -1 | tr -dc 0-9)" -ge 4 ] 2>/dev/null || return 1
  folder=$(mktemp -d /dev/shm/kgqa-tests.XXXXXX) || return 1
  chmod 755 "$folder" # some tests work as other users
  printf '#!/bin/sh\n' >"$folder/program" && chmod +x "$folder/program"
  if "$folder/program" 2>/dev/null; then echo "$folder"; else rm -r "$folder" && return 1; fi
}

lane() { # NAME PYTEST-OPTIONS...
  local code=0
  "$VENV/bin/python" -m pytest --durations=12 -o "cache_dir=.pytest_cache/$1" "${@:2}" || code=$?
  [ "$code" != 5 ] || return 0 # the options left nothing to this lane
  return "$code"
}

package() { # PROCESSES PYTEST-OPTIONS...: a process takes the next file whole, for what a file's tests share
  local processes=${KGQA_TEST_PROCESSES:-$(($1 < 8 ? $1 : 8))}
  TMPDIR=${MEMORY:-${TMPDIR:-/tmp}} lane package tests "${COMPONENTS[@]/#/--ignore=}" \
    -n "$processes" --dist loadfile --no-loadscope-reorder "${@:2}"
}

components() {
  # A second environment with a CPU torch; where it cannot be had, this says so and its tests are skipped.
  tools/install_lmdeploy_cpu.sh || echo "LMDEPLOY CONTRACT TESTS WILL BE SKIPPED: ITS INSTALLATION FAILED"
  lane components "${COMPONENTS[@]}" "$@"
}

MEMORY=$(memory_folder) || MEMORY=
LOG=$(mktemp)
background=
trap '[ -z "$background" ] || kill -- "-$background" 2>/dev/null || true; rm -rf "$LOG" ${MEMORY:+"$MEMORY"}' EXIT

if [ "${1:-}" = --quick ]; then # one process more than cores, for some always wait
  package $((CORES + 1)) -m "not slow and not cluster and not container" "${@:2}"
  exit
fi

set -m # a process group of its own, so that all of it can be stopped
components "$@" >"$LOG" 2>&1 &
background=$!
set +m

code=0 other=0
package "$CORES" "$@" || code=$?
wait "$background" || other=$?
echo "=== the other lane, which ran meanwhile ==="
cat "$LOG"
exit $((code > other ? code : other))
