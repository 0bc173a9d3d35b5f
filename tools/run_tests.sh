#!/usr/bin/env bash
# Run the test-suite with the project's virtual environment; what fails is tried once more, and said aloud.
#   tools/run_tests.sh [pytest options]
# A test that passes only at the second try is a defect to mend, but not a reason to refuse everybody's work: real
# Slurm, MPI, containers and killed processes share two cores here with whatever else the machine does.
# Exit: 0 all passed, 1 something failed twice, otherwise pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
code=0
"$VENV/bin/python" -m pytest "$@" || code=$?
[ "$code" = 1 ] || exit "$code"
echo "SOME TESTS FAILED; THEY ARE TRIED ONCE MORE:" >&2
exec "$VENV/bin/python" -m pytest "$@" --last-failed --last-failed-no-failures none
