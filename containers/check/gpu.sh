#!/usr/bin/env bash
# The part of an image's %test that needs a GPU: LMDeploy's own engine (or vLLM) loads and sees the card. Skipped, and
# saying so, where no GPU is visible: `apptainer test --nv IMAGE` on a node that has one runs it.
#   gpu.sh
# How fast the card is tells `kgqa bench CONFIG`, on a GPU node, inside this image.
set -euo pipefail
if ! cards=$(nvidia-smi -L 2>/dev/null) || [ -z "$cards" ]; then
  echo "SKIPPED: GPU: none is visible here; run 'apptainer test --nv' on a node that has one"
  exit 0
fi
if command -v vllm >/dev/null; then # in a Python of its own, beside kgqa's
  /usr/bin/python3 -c 'import torch, vllm; assert torch.cuda.is_available(), "torch sees no GPU"
print(f"ok: vllm {vllm.__version__} on {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")'
  exit 0
fi
if ! python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("lmdeploy") is None)'; then
  echo "SKIPPED: GPU: this image holds neither LMDeploy nor vLLM; those of llm.def and vllm.def do"
  exit 0
fi
python - <<'PYTHON'
import lmdeploy
import torch
from lmdeploy.turbomind import turbomind  # noqa: F401  loads the compiled engine: fails without a fitting driver

assert torch.cuda.is_available(), "torch sees no GPU: does the driver fit the image's CUDA?"
print(f"ok: lmdeploy {lmdeploy.__version__} on {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")
PYTHON
# A kernel, a guided answer and a start on two cards; how fast it is: kgqa bench CONFIG.
python -m kgqa_hpc doctor --gpu
