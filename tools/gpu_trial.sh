#!/usr/bin/env bash
# Prove a GPU in at most ten minutes: does LMDeploy start, how fast is it, what does guiding cost, does a killed engine resume?
#   tools/gpu_trial.sh STAGED REPORT.json      STAGED: the pieces of tools/pack_gpu_trial.sh, which puts this beside them
#   tools/gpu_trial.sh --dry-run REPORT.json   no GPU, nothing staged: this checkout, the scripted engine, all steps but the GPU's
# For a bare Linux machine with an NVIDIA driver and Python 3.12 with torch and transformers; no network is used. Each step has
# its own limit, a step that fails is written down and the next is tried, and the report is written in any case.
# PYTHON names the interpreter (default python3).
# Exit: 0 the report is written and what was tried worked, 1 something did not (the report says what), 2 wrong use.
# shellcheck disable=SC2329  # the steps are called by name
set -uo pipefail
set -m
DRY=
[ "${1:-}" = --dry-run ] && DRY=1
[ $# -eq 2 ] || { sed -n '2,9s/^# //p' "$0" >&2; exit 2; }
STAGED=$1 REPORT=$(realpath -m "$2")
PYTHON=${PYTHON:-python3}
DEADLINE=$((SECONDS + 570))
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/steps"
failed=0

# step NAME SECONDS COMMAND …: run it, keep its exit status, seconds and last words for the report.
step() {
  local name=$1 limit=$2 left=$((DEADLINE - SECONDS)) began=$SECONDS code=0
  shift 2
  [ "$limit" -le "$left" ] || limit=$left
  if [ "$limit" -lt 5 ]; then
    code=124
    echo "no time left" >"$WORK/steps/$name.log"
  else
    # A process group of its own (set -m), so that all it started ends with it.
    "$@" >"$WORK/steps/$name.log" 2>&1 &
    local job=$!
    while kill -0 "$job" 2>/dev/null && [ $((SECONDS - began)) -lt "$limit" ]; do sleep 0.2; done
    if kill -0 "$job" 2>/dev/null; then
      kill -KILL -- "-$job" 2>/dev/null
      echo "stopped after $limit s" >>"$WORK/steps/$name.log"
    fi
    wait "$job" || code=$?
  fi
  printf '%s\t%s\t%s\n' "$name" "$code" "$((SECONDS - began))" >>"$WORK/steps.tsv"
  printf '%-22s %s in %s s\n' "$name" "$([ "$code" -eq 0 ] && echo ok || echo "FAILED ($code)")" "$((SECONDS - began))" >&2
  [ "$code" -eq 0 ] || failed=1
  return "$code"
}

unpack() {
  (cd "$STAGED" && sha256sum --check --quiet SHA256SUMS) && cat "$STAGED"/piece-* | tar -x -C "$WORK"
}

environment() { # wheels are archives; unpacked, they need neither pip nor venv, and PYTHON may itself be a venv
  local wheel
  for wheel in "$WORK"/trial/wheels/*.whl; do
    "$PYTHON" -m zipfile -e "$wheel" "$WORK/site" || return 1
  done
  PYTHONPATH="$WORK/site" "$PYTHON" -c 'import torch, transformers, numpy; print(torch.__version__, transformers.__version__, numpy.__version__)'
}

convert() { # the GGUF model to a Hugging Face folder, 16 bits
  "$PYTHON" - "$WORK/trial" "$WORK/model" <<'EOP'
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

try:  # transformers 5 may keep the weights in their blocks, and saves no model that says it is quantised
    from transformers import GgufConfig

    plain = {"quantization_config": GgufConfig(dequantize=True)}
except ImportError:
    plain = {}
source, target = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(source, gguf_file="model.gguf", dtype=torch.float16, **plain)
model.hf_quantizer = None
if hasattr(model.config, "quantization_config"):
    del model.config.quantization_config
model.save_pretrained(target)
AutoTokenizer.from_pretrained(source, gguf_file="model.gguf").save_pretrained(target)
EOP
}

look() { "${KGQA[@]}" doctor; }

compile() { "$PYTHON" -m kgqa_hpc.compile_kernels; } # else the first bench pays for it

config() { # NAME ENGINE: a run of the bundled graph
  printf 'seed: 42\ngraph: {source: hpo, min_degree: 3, max_degree: 100}\nanchors: {kind: graphlet, per_shape: 8}\n' >"$WORK/$1.yaml"
  printf 'engine: %s\nruntime: {shard_size: 16, commit_every: 2s, engine_stall: 120s}\n' "$2" >>"$WORK/$1.yaml"
}

bench() { "${KGQA[@]}" bench "$WORK/$1.yaml" --number 64 --out "$WORK/bench-$1.json"; }

kill_and_resume() { # kill -9 the engine in mid-run: the worker starts it again, and the run still comes to its end
  local run="$WORK/run-$1" log="$WORK/steps/kill-$1.run" worker child killed=0
  "${KGQA[@]}" init "$WORK/$1.yaml" "$run" && "${KGQA[@]}" import "$run" && "${KGQA[@]}" sample "$run" || return 1
  "${KGQA[@]}" run "$run" >"$log" 2>&1 &
  worker=$!
  for _ in $(seq 600); do
    kill -0 "$worker" 2>/dev/null || break
    # Its own child, by parent; only once the first answers are in a journal is it worth killing.
    child=$(ps -o pid= -o args= --ppid "$worker" | sed -n 's/^ *\([0-9]*\) .*kgqa_hpc\.engines\.child.*/\1/p' | head -n 1)
    if [ -n "$child" ] && find "$run/results" -name '*.journal' -size +0 2>/dev/null | grep -q .; then
      kill -9 "$child" && killed=1
      break
    fi
    sleep 0.2
  done
  wait "$worker" || { tail -n 5 "$log"; return 1; }
  [ "$killed" -eq 1 ] || { echo "the run was over before anything could be killed"; return 1; }
  "${KGQA[@]}" status "$run" --json | "$PYTHON" -c 'import json, sys; s = json.load(sys.stdin); print(s["verdicts"]); sys.exit(not s["complete"])'
}

if [ -n "$DRY" ]; then
  ROOT=$(cd "$(dirname "$0")/.." && pwd)
else
  step unpack 60 unpack || true
  step environment 120 environment || true
  ROOT=$WORK/trial/kgqa:$WORK/site
fi
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TQDM_DISABLE=1
KGQA=("$PYTHON" -m kgqa_hpc)

works=()
if [ -n "$DRY" ]; then
  config scripted '{kind: scripted, latency: {batch: 16, decode_tokens_per_s: 1500, prefill_tokens_per_s: 100000}}'
  step bench-scripted 240 bench scripted && works+=(scripted)
else
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$WORK/gpu.txt" 2>&1 || true
  step doctor 60 look || true
  step compile 90 compile || true
  step convert 90 convert || true
  for backend in pytorch turbomind; do
    config "$backend" "{kind: lmdeploy, model: $WORK/model, backend: $backend, session_len: 2048}"
    step "bench-$backend" 180 bench "$backend" && works+=("$backend")
  done
fi
for one in "${works[@]:0:1}"; do
  step "kill-$one" 180 kill_and_resume "$one" || true
done

"$PYTHON" - "$WORK" "$REPORT" "${DRY:-0}" <<'EOP'
import json
import pathlib
import platform
import sys

work, report, dry = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3] == "1"
steps = []
for line in (work / "steps.tsv").read_text().splitlines():
    name, code, seconds = line.split("\t")
    words = (work / "steps" / f"{name}.log").read_text(errors="replace")[-3000:]
    steps.append({"step": name, "exit": int(code), "seconds": int(seconds), "last_words": words})
gpu = work / "gpu.txt"
document = {
    "format": "kgqa-gpu-trial",
    "version": 1,
    "measured_on_a_gpu": not dry and any(s["step"].startswith("bench-") and s["exit"] == 0 for s in steps),
    "gpu": gpu.read_text().strip() if gpu.exists() else None,
    "python": platform.python_version(),
    "steps": steps,
    "bench": {p.stem[6:]: json.loads(p.read_text()) for p in sorted(work.glob("bench-*.json"))},
}
report.write_text(json.dumps(document, indent=2) + "\n")
print(report)
EOP
exit "$failed"
