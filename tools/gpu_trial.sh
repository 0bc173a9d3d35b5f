#!/usr/bin/env bash
# Prove a GPU in at most ten minutes: does TurboMind start and guide, how fast is it, does a killed engine resume, and AWQ?
#   tools/gpu_trial.sh STAGED REPORT.json      STAGED: the pieces of tools/pack_gpu_trial.sh, which puts this beside them
#   tools/gpu_trial.sh --dry-run REPORT.json   no GPU, nothing staged: this checkout, a stand-in for each engine, all steps
# For a bare Linux machine with an NVIDIA driver and Python 3.12 with torch and transformers; no network is used. In order: a guided
# answer of TurboMind, a steady run, a sweep of batches, kill -9 and resume to the dataset, an 8B model in AWQ's format with random
# weights (also through LMDeploy's own pipeline), then the PyTorch backend (also in a process of its own) and vLLM (where it is
# installed) if time is left. Each measurement is a line of REPORT.rows.jsonl as soon as
# it is there; REPORT.json is written anew after each step. A step that fails or takes too long does not stop the next.
# PYTHON names the interpreter (default python3).
# Exit: 0 what was tried worked, 1 something did not (the report says what), 2 wrong use.
# shellcheck disable=SC2329  # the steps are called by name
set -uo pipefail
set -m
DRY=
[ "${1:-}" = --dry-run ] && DRY=1
[ $# -eq 2 ] || { sed -n '2,11s/^# //p' "$0" >&2; exit 2; }
STAGED=$1 REPORT=$(realpath -m "$2")
ROWS=${REPORT%.json}.rows.jsonl
PYTHON=${PYTHON:-python3}
PACE=$([ -n "$DRY" ] && echo 6 || echo 1) # a rehearsal costs no lent time, and a machine that builds may be busy
DEADLINE=$((SECONDS + PACE * 570))
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
mkdir -p "$WORK/steps"
: >"$ROWS"
failed=0

# step NAME SECONDS COMMAND …: run it, keep its exit status, seconds and last words for the report.
step() {
  local name=$1 limit=$((PACE * $2)) left=$((DEADLINE - SECONDS)) began=$SECONDS code=0
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
  report
  return "$code"
}

# if_time NAME SECONDS COMMAND …: a step for which no time may be left; that is no failure.
if_time() {
  if [ "$2" -gt $((DEADLINE - SECONDS)) ]; then
    printf '%s\t-\t0\n' "$1" >>"$WORK/steps.tsv"
    echo "no time left" >"$WORK/steps/$1.log"
    printf '%-22s skipped: no time left\n' "$1" >&2
    report
    return 1
  fi
  step "$@"
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
import json
import pathlib
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

# transformers (5.17) takes this vocabulary of bytes for one of SentencePiece, so that a grammar would find no space in it.
file = pathlib.Path(target, "tokenizer.json")
tokenizer = json.loads(file.read_text(encoding="utf-8"))
tokenizer["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
tokenizer["model"]["byte_fallback"] = False
file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
file = pathlib.Path(target, "tokenizer_config.json")
settings = json.loads(file.read_text(encoding="utf-8"))
ends = {"eos_token": "<|im_end|>", "eos_token_id": model.config.eos_token_id, "tokenizer_class": "PreTrainedTokenizerFast"}
file.write_text(json.dumps(settings | ends), encoding="utf-8")
EOP
}

look() { "${KGQA[@]}" doctor; }

compiled() { tail --pid="$COMPILING" -f /dev/null; } # begun beside TurboMind's start; a first run would pay for it

config() { # NAME PER-SHAPE ENGINE: a run of the bundled graph, with the paper's prompts
  printf 'seed: 42\ngraph: {source: hpo, min_degree: 3, max_degree: 100}\nanchors: {kind: graphlet, per_shape: %s}\n' "$2" >"$WORK/$1.yaml"
  printf 'engine: %s\nruntime: {shard_size: 16, commit_every: 2s, engine_stall: 120s}\n' "$3" >>"$WORK/$1.yaml"
}

engine() { # NAME [MODEL]: its settings; in a rehearsal all are the model of a GPU
  local model=${2:-$WORK/model} own='session_len: 2048, max_batch_size: 64'
  [ -z "$DRY" ] || set -- stand-in
  case $1 in
    stand-in) echo '{kind: scripted, latency: {batch: 16, decode_tokens_per_s: 1500, prefill_tokens_per_s: 100000, prefix_hit: 0.9}}' ;;
    vllm)
      echo "{kind: openai, model: $model, concurrency: 64, gpus: 1, start_timeout_s: 120, command: [vllm, serve, '{model}'," \
        "--served-model-name, '{name}', --host, 127.0.0.1, --port, '{port}', --max-model-len, '2048', --max-num-seqs, '64'," \
        "--enable-prefix-caching]}"
      ;;
    pytorch-process) echo "{kind: lmdeploy, model: $model, backend: pytorch, $own, extra: {enable_mp_engine: true}}" ;;
    *) echo "{kind: lmdeploy, model: $model, backend: $1, $own}" ;;
  esac
}

trial() { "$PYTHON" "$TOOLS/gpu_trial_steps.py" "$@"; }

steady() { # NAME: 256 items and a few more
  "${KGQA[@]}" init "$WORK/$1.yaml" "$WORK/run-$1" && "${KGQA[@]}" import "$WORK/run-$1" && "${KGQA[@]}" sample "$WORK/run-$1" || return 1
  trial steady "$1" "$WORK/run-$1" "$ROWS" $((PACE * 110))
}

awq_model() { # 8B of random weights; a small one in a rehearsal
  if [ -z "$DRY" ]; then
    trial random-awq "$WORK/awq" "$WORK/model"
  else
    mkdir -p "$WORK/model"
    echo '{"vocab_size": 512}' >"$WORK/model/config.json"
    trial random-awq "$WORK/awq" "$WORK/model" tiny
  fi
}

kill_and_resume() { # kill -9 the engine in mid-run: the worker starts it again, and the run still comes to its dataset
  local run="$WORK/kill-$1" log="$WORK/steps/kill-$1.run" worker child killed=0
  "${KGQA[@]}" init "$WORK/$1-kill.yaml" "$run" && "${KGQA[@]}" import "$run" && "${KGQA[@]}" sample "$run" || return 1
  "${KGQA[@]}" run "$run" >"$log" 2>&1 &
  worker=$!
  for _ in $(seq $((PACE * 600))); do
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
  "${KGQA[@]}" merge "$run" && "${KGQA[@]}" report "$run" || return 1
  "${KGQA[@]}" status "$run" --json | "$PYTHON" -c '
import collections, json, pathlib, sys
status = json.load(sys.stdin)
files = (pathlib.Path(sys.argv[2], "dataset", f"{name}.jsonl") for name in ("accepted", "rejected", "lost"))
times = collections.Counter(json.loads(line)["id"] for file in files for line in file.read_text("utf-8").splitlines())
once = len(times) == times.total() == status["items"]["total"]
row = {"row": "kill", "engine": sys.argv[1], "complete": status["complete"], "verdicts": status["verdicts"], "once": once}
print(json.dumps(row))
sys.exit(not (status["complete"] and once))' "$1" "$run" | tee -a "$ROWS"
}

report() { # all that is known so far
  "$PYTHON" - "$WORK" "$ROWS" "$REPORT" "${DRY:-0}" <<'EOP'
import json
import os
import pathlib
import platform
import sys

work, rows, report, dry = *map(pathlib.Path, sys.argv[1:4]), sys.argv[4] == "1"
steps = []
for line in (work / "steps.tsv").read_text().splitlines():
    name, code, seconds = line.split("\t")
    words = (work / "steps" / f"{name}.log").read_text(errors="replace")[-3000:]
    steps.append({"step": name, "exit": None if code == "-" else int(code), "seconds": int(seconds), "last_words": words})
gpu = work / "gpu.txt"
measured = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
document = {
    "format": "kgqa-gpu-trial",
    "version": 2,
    "measured_on_a_gpu": not dry and any(row["row"] in ("answer", "steady", "bench") for row in measured),
    "gpu": gpu.read_text().strip() if gpu.exists() else None,
    "python": platform.python_version(),
    "steps": steps,
    "rows": measured,
}
partial = report.with_suffix(".partial")
partial.write_text(json.dumps(document, indent=2) + "\n")
os.replace(partial, report)
EOP
}

if [ -n "$DRY" ]; then
  ROOT=$(cd "$(dirname "$0")/.." && pwd)
  TOOLS=$ROOT/tools
else
  step unpack 60 unpack || true
  step environment 120 environment || true
  ROOT=$WORK/trial/kgqa:$WORK/site
  TOOLS=$WORK/trial/kgqa/tools
  # What TurboMind is linked against; NCCL as torch has it, where it brings one: both ask for the same file.
  nccl=$("$PYTHON" -c 'import importlib.util as u; print(u.find_spec("nvidia.nccl").submodule_search_locations[0])' 2>/dev/null)
  export LD_LIBRARY_PATH="${nccl:+$nccl/lib:}$WORK/trial/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$WORK/gpu.txt" 2>&1 || true
fi
export PYTHONPATH="$ROOT${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TQDM_DISABLE=1
KGQA=("$PYTHON" -m kgqa_hpc)
"$PYTHON" -m kgqa_hpc.compile_kernels >"$WORK/compile.log" 2>&1 &
COMPILING=$!
[ -n "$DRY" ] || step convert 90 convert || true

config turbomind 11 "$(engine turbomind)"
config turbomind-kill 3 "$(engine turbomind)"
step answer-turbomind 60 trial answer turbomind "$WORK/turbomind.yaml" "$ROWS" || true
step compile 180 compiled || true
step steady-turbomind 150 steady turbomind || true
step sweep-turbomind 150 trial sweep turbomind "$WORK/turbomind.yaml" "$ROWS" || true
if_time kill-turbomind 85 kill_and_resume turbomind || true
config awq 3 "$(engine turbomind "$WORK/awq")"
if if_time awq-model 40 awq_model; then
  if_time sweep-awq 60 trial sweep awq "$WORK/awq.yaml" "$ROWS" 64 || true
  [ -n "$DRY" ] || if_time peer-awq 110 trial peer awq "$WORK/awq.yaml" "$WORK/run-turbomind" "$ROWS" || true
fi
config pytorch 3 "$(engine pytorch)"
if if_time answer-pytorch 45 trial answer pytorch "$WORK/pytorch.yaml" "$ROWS"; then
  if_time sweep-pytorch 45 trial sweep pytorch "$WORK/pytorch.yaml" "$ROWS" 64 || true
  config pytorch-process 3 "$(engine pytorch-process)" # is it faster beside the loop that detokenises?
  if_time sweep-pytorch-process 45 trial sweep pytorch-process "$WORK/pytorch-process.yaml" "$ROWS" 64 || true
fi
config vllm 3 "$(engine vllm)"
if [ -n "$DRY" ] || command -v vllm >/dev/null; then
  if_time sweep-vllm 100 trial sweep vllm "$WORK/vllm.yaml" "$ROWS" 64 || true
fi
[ -n "$DRY" ] || if_time doctor 10 look || true
! kill -0 "$COMPILING" 2>/dev/null || kill -- "-$COMPILING"
echo "$REPORT"
exit "$failed"
