#!/usr/bin/env bash
# Run the whole test-suite with the project's virtual environment, in four lanes side by side: real clusters and images;
# storms of kills, which mostly wait; fresh installations, LMDeploy and copies of the project without a plugin; and
# everything else, in a process for each core and one more, because some always wait. Nothing is tried twice.
#   tools/run_tests.sh [pytest options]          the options go to all lanes
#   tools/run_tests.sh --quick [pytest options]  without clusters, images, LMDeploy and what is marked slow
# KGQA_TEST_PROCESSES is another number of processes. Exit: 0 all passed, otherwise pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
COMPONENTS=(tests/cluster tests/containers tests/tools/test_slurm_sandbox.py)
COPIES=(tests/engines/lmdeploy tests/test_walls.py)
STORMS=(tests/chaos tests/tools/test_gpu_trial.py)
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

package() { # PYTEST-OPTIONS...: a process takes the next file whole, for what a file's tests share
  local processes=${KGQA_TEST_PROCESSES:-$((CORES < 8 ? CORES + 1 : 8))}
  local others=("${COMPONENTS[@]}" "${STORMS[@]}" "${COPIES[@]}" tests/package)
  TMPDIR=${MEMORY:-${TMPDIR:-/tmp}} lane package tests "${others[@]/#/--ignore=}" \
    -n "$processes" --dist loadfile --no-loadscope-reorder "$@"
}

copies() {
  local code=0
  lane installed tests/package "$@" || code=$?
  TMPDIR=${MEMORY:-${TMPDIR:-/tmp}} lane copies "${COPIES[@]}" "$@" || return
  return "$code"
}

MEMORY=$(memory_folder) || MEMORY=
LOGS=$(mktemp -d)
background=()
# shellcheck disable=SC2329  # the trap calls it
stop() {
  for process in "${background[@]}"; do kill -- "-$process" 2>/dev/null || true; done
  rm -rf "$LOGS" ${MEMORY:+"$MEMORY"}
}
trap stop EXIT

if [ "${1:-}" = --quick ]; then
  package -m "not slow and not cluster and not container" "${@:2}"
  exit
fi

set -m # process groups of their own, so that all of each can be stopped
lane components "${COMPONENTS[@]}" "$@" >"$LOGS/components" 2>&1 &
background+=($!)
TMPDIR=${MEMORY:-${TMPDIR:-/tmp}} lane storms "${STORMS[@]}" "$@" >"$LOGS/storms" 2>&1 &
background+=($!)
copies "$@" >"$LOGS/copies" 2>&1 &
background+=($!)
set +m

worst=0 code=0
package "$@" || worst=$?
for process in "${background[@]}"; do
  code=0
  wait "$process" || code=$?
  worst=$((code > worst ? code : worst))
done
for log in "$LOGS"/*; do
  echo "=== the lane $(basename "$log"), which ran meanwhile ==="
  cat "$log"
done
exit "$worst"
