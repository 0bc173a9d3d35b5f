#!/usr/bin/env bash
# A virtual environment in which LMDeploy's Python code runs without a GPU, for the contract tests of its engine.
#   tools/install_lmdeploy_cpu.sh        into .venv-lmdeploy (VENV_LMDEPLOY=… elsewhere); about 1.6 GB
# Takes torch's CPU build only; where pip cannot find one, says so in capitals and leaves: nobody asked for several
# gigabytes of CUDA. Give pip an index of CPU builds with PIP_EXTRA_INDEX_URL. Safe to repeat; failed downloads are
# tried again; a finished installation is remembered.
# Exit: 0 installed, or skipped with a word in capitals; KGQA_LMDEPLOY_REQUIRED=1 makes a skip exit 1.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV_LMDEPLOY:-.venv-lmdeploy}
PYTHON=${PYTHON:-python3}
STAMP="$VENV/kgqa.stamp"
TORCH='torch==2.13.0+cpu'
LMDEPLOY='lmdeploy>=0.18,<0.19'
XGRAMMAR='xgrammar==0.2.1'  # the one that LMDeploy 0.18 has inside its TurboMind
# What `import lmdeploy` and its pipeline need; LMDeploy's own list adds CUDA libraries, ray and compilers.
LIGHT=(aiohttp cloudpickle einops fastapi fire mmengine-lite numpy openai openai_harmony partial_json_parser pillow
  prometheus_client protobuf psutil pybase64 pydantic pyzmq safetensors sentencepiece shortuuid tiktoken tqdm
  'transformers>=4.56' uvicorn)
OURS=(hypothesis orjson psutil pytest pytest-timeout pyyaml)

say() { printf '%s\n' "$*" >&2; }
skip() {
  say "LMDEPLOY CONTRACT TESTS WILL BE SKIPPED: $*"
  [ -z "${KGQA_LMDEPLOY_REQUIRED:-}" ] || exit 1
  exit 0
}

fingerprint() { cksum tools/install_lmdeploy_cpu.sh; }
if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ]; then
  exit 0
fi

install() {
  local attempt
  for attempt in 1 2 3; do
    "$VENV/bin/python" -m pip install --no-compile --quiet --disable-pip-version-check --retries 5 "$@" 2>"$VENV/pip.log" && return 0
    grep -q 'No matching distribution' "$VENV/pip.log" && return 1
    sleep $((attempt * 5))
  done
  return 1
}

"$PYTHON" -m venv "$VENV" 2>/dev/null || skip "$PYTHON HAS NO VENV MODULE (apt-get install python3-venv)"
say "installing LMDeploy with torch for the CPU into $VENV"
install "$TORCH" || skip "NO CPU BUILD OF TORCH TO BE HAD ($(tail -n 1 "$VENV/pip.log"))"
install "${LIGHT[@]}" "${OURS[@]}" || skip "A DEPENDENCY CANNOT BE HAD ($(tail -n 1 "$VENV/pip.log"))"
install --no-deps "$LMDEPLOY" "$XGRAMMAR" apache-tvm-ffi || skip "LMDEPLOY CANNOT BE HAD ($(tail -n 1 "$VENV/pip.log"))"
"$VENV/bin/python" -c 'import lmdeploy, xgrammar' 2>"$VENV/import.log" || skip "LMDEPLOY CANNOT BE IMPORTED ($(tail -n 1 "$VENV/import.log"))"
# Servers bring a newer one: the grammars are tested with the newest as well (tests/engines/lmdeploy/test_engine.py).
rm -rf "$VENV/xgrammar-newest"
install --no-deps --target "$VENV/xgrammar-newest" xgrammar || skip "THE NEWEST XGRAMMAR CANNOT BE HAD ($(tail -n 1 "$VENV/pip.log"))"
fingerprint >"$STAMP"
