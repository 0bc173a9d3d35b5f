#!/usr/bin/env bash
# Pack what tools/gpu_trial.sh needs on a machine without a network, in pieces of at most 60 MiB.
#   tools/pack_gpu_trial.sh OUT           on a machine with a network, pip and this package; needs about 5 GB
# OUT gets piece-000, piece-001, … and SHA256SUMS: this checkout, wheels for Python 3.12 on Linux x86-64 (what this package
# and LMDeploy need, in one resolution), the four CUDA 12 libraries that TurboMind is linked against, and the 135 M model in GGUF.
# The machine must have torch (with triton) and transformers. What is left out is said.
set -euo pipefail
OUT=$(realpath -m "${1:?where to? tools/pack_gpu_trial.sh OUT}")
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
wheels="$stage/trial/wheels"
mkdir -p "$wheels" "$stage/trial/kgqa" "$OUT"
git archive --format=tar HEAD | tar -x -C "$stage/trial/kgqa"
fetch() {
  "$PYTHON" -m pip download --quiet --quiet --disable-pip-version-check --only-binary=:all: --python-version 3.12 \
    --implementation cp --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    --dest "$wheels" "$@"
}
# Without what they ask for, torch among it; the rest of LMDeploy's list is made from its own words.
fetch --no-deps 'lmdeploy>=0.18,<0.19' 'xgrammar==0.2.1' accelerate  # transformers loads GGUF with it
"$PYTHON" - "$wheels" "$stage/requirements.txt" <<'EOP'
import pathlib
import re
import sys
import tomllib
import zipfile

THE_MACHINE_HAS = {"torch", "transformers", "triton"}
# TurboMind's: of these wheels only the libraries come along (see below); it does not use curand.
LIBRARIES = {"nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12", "nvidia-curand-cu12", "nvidia-nccl-cu12"}
# For other models, several cards or other stages than a trial has; rouge-score has no wheel.
NOT_ASKED = {"accelerate", "flash-linear-attention", "opencv-python-headless", "peft", "ray", "rdkit", "tilelang",
             "torchvision", "xgrammar", "rouge-score", "sacrebleu"}  # fmt: skip

wheels, target = map(pathlib.Path, sys.argv[1:])
with zipfile.ZipFile(next(wheels.glob("lmdeploy-*.whl"))) as wheel:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    lines = wheel.read(metadata).decode().splitlines()
wanted = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]
wanted += project["dependencies"] + project["optional-dependencies"]["hpo"] + project["optional-dependencies"]["openai"]
wanted += ["nvidia-ml-py>=12", "gguf"]  # gguf: transformers reads the model with it
name = lambda line: re.split(r"[^A-Za-z0-9._-]", line.strip(), maxsplit=1)[0].lower().replace("_", "-")
kept = [line for line in wanted if "extra ==" not in line and name(line) not in THE_MACHINE_HAS | LIBRARIES | NOT_ASKED]
target.write_text("\n".join(kept) + "\n")
print(f"left out, the machine has them: {', '.join(sorted(THE_MACHINE_HAS))}", file=sys.stderr)
EOP
fetch --requirement "$stage/requirements.txt" --constraint containers/constraints.txt
mkdir -p "$stage/cuda" "$stage/trial/cuda"
fetch --no-deps --dest "$stage/cuda" nvidia-cublas-cu12 nvidia-cuda-runtime-cu12 nvidia-nccl-cu12
"$PYTHON" - "$stage/cuda" "$stage/trial/cuda" <<'EOP'
import pathlib
import re
import shutil
import sys
import zipfile

LIBRARIES = {"libcublas", "libcublasLt", "libcudart", "libnccl"}  # what TurboMind's module asks the loader for

wheels, target = map(pathlib.Path, sys.argv[1:])
for wheel in map(zipfile.ZipFile, wheels.glob("*.whl")):
    for name in wheel.namelist():
        library = re.fullmatch(r"nvidia/\w+/lib/((lib\w+)\.so\.\d+)", name)
        if library and library[2] in LIBRARIES:
            LIBRARIES.discard(library[2])
            with wheel.open(name) as source, open(target / library[1], "wb") as file:
                shutil.copyfileobj(source, file)
if LIBRARIES:
    sys.exit(f"error: no wheel of CUDA 12 holds {', '.join(sorted(LIBRARIES))}")
EOP
"$PYTHON" - "$stage/trial/model.gguf" <<'EOP'
import shutil
import sys

from kgqa_hpc.engines.cpu import bundled_model

shutil.copy(bundled_model(), sys.argv[1])
EOP
rm -f "$OUT"/piece-* "$OUT/SHA256SUMS"
tar -c -C "$stage" trial | split --bytes=60M --numeric-suffixes --suffix-length=3 - "$OUT/piece-"
(cd "$OUT" && sha256sum piece-* >SHA256SUMS)
cp tools/gpu_trial.sh "$OUT/"
printf 'packed %s pieces (%s) into %s; there: gpu_trial.sh . REPORT.json\n' "$(find "$OUT" -name 'piece-*' | wc -l)" \
  "$(du -sh "$OUT" | cut -f 1)" "$OUT"
