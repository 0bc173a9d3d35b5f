"""Steps of tools/gpu_trial.sh that need the package: each appends its rows to a file as soon as it has them.

    python gpu_trial_steps.py answer NAME CONFIG ROWS             start the engine; a guided answer with quotes
    python gpu_trial_steps.py steady NAME RUN ROWS SECONDS        work on a run, at most so long; a row every 5 s
    python gpu_trial_steps.py sweep NAME CONFIG ROWS [BATCH ...]  kgqa bench
    python gpu_trial_steps.py peer NAME CONFIG RUN ROWS           a run's requests, and the same through LMDeploy alone
    python gpu_trial_steps.py random-awq FOLDER TOKENIZER [tiny]  an 8B Llama of random 4-bit weights

A row is a line of JSON: the kind of the row, the engine's name in the trial, and what was measured.
"""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kgqa_hpc.config import load_config
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.runs import open_run
from kgqa_hpc.status.snapshot import load_totals, survey
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.trials.bench import GpuWatch, bench
from kgqa_hpc.trials.preview import prompts_of

QUOTED = 'He said "no",\nthen \\ left: β 中.'
FIXED = {
    "type": "object",
    "properties": {"sentence": {"type": "string", "enum": [QUOTED]}},
    "required": ["sentence"],
    "additionalProperties": False,
}
FREE = {**FIXED, "properties": {"sentence": {"type": "string"}}}
STALL_S = 120.0
EVERY_S = 5.0
GROUP = 128  # weights that share a scale


def append(rows: str, kind: str, name: str, **measured: Any) -> None:
    """Add a row to the file, and print it."""
    line = json.dumps({"row": kind, "engine": name, **measured}, ensure_ascii=False)
    with open(rows, "a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, flush=True)


def answer(name: str, config: str, rows: str) -> int:
    """Check that the engine starts, and keeps a schema whose text has quotes, a newline, a backslash, beta, CJK."""
    loaded = load_config(Path(config))
    settings = loaded.engine_of(loaded.passes[0].name)
    with EngineProcess(settings, Path(f"{rows}.{name}.log"), STALL_S) as engine:
        began = time.monotonic()
        info = engine.start()
        append(rows, "start", name, seconds=round(time.monotonic() - began, 2), batch=info.max_batch,
               provenance=info.provenance(), card=info.gpu_uuid)  # fmt: skip
        began = time.monotonic()
        engine.preflight([FIXED, FREE])
        compiled = round(time.monotonic() - began, 2)
        text = f"Repeat this sentence, as JSON: {QUOTED}"
        message = ({"role": "user", "content": text},)
        requests = [Request(f"fixed-{n}", message, 120, seed=7, schema=FIXED) for n in range(2)]
        requests += [
            Request(f"free-{n}", message, 120, temperature=0.7, seed=7, schema=FREE) for n in range(2)
        ]
        answers: dict[str, Response] = {}
        for request in requests:
            engine.send([request])
            while request.id not in answers:
                answers |= {response.id: response for response in engine.receive(1.0)}
    kept = _sentence(answers["fixed-0"]) == QUOTED
    append(
        rows,
        "answer",
        name,
        kept=kept,
        compile_s=compiled,
        text=answers["fixed-0"].text,
        free_text=answers["free-0"].text,
        same_seed_same_text=answers["free-0"].text == answers["free-1"].text,
    )
    return 0 if kept else 1


def _sentence(response: Response) -> Any:
    try:
        return json.loads(response.text)["sentence"]
    except (ValueError, KeyError, TypeError):
        return None


def steady(name: str, folder: str, rows: str, limit: str) -> int:
    """Work on the run for at most `limit` seconds; append the number of finished items every few seconds."""
    run = RunFolder(Path(folder))
    worker = subprocess.Popen([sys.executable, "-m", "kgqa_hpc", "run", folder], stdout=subprocess.DEVNULL)
    totals = load_totals(run, [])
    began = looked = time.monotonic()
    ended, tokens = 0, 0
    with GpuWatch() as gpu:
        while looked == began or worker.returncode is None:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(EVERY_S)
            if time.monotonic() - began > float(limit) and worker.poll() is None:
                worker.send_signal(signal.SIGTERM)  # it finishes what is in flight, and could go on later
                worker.wait()
            now = time.monotonic()
            for entry in totals:
                entry.refresh(run)
            status = survey(run.path)
            items, written = status["items"]["ended"], sum(entry.all_tokens["completion"] for entry in totals)
            append(
                rows,
                "steady",
                name,
                seconds=round(now - began, 1),
                items=items,
                items_per_s=round((items - ended) / (now - looked), 3),
                tokens_per_s=round((written - tokens) / (now - looked), 1),
                **gpu.between(looked, now),
            )
            ended, tokens, looked = items, written, now
    append(
        rows, "run", name, exit=worker.returncode, complete=status["complete"], verdicts=status["verdicts"]
    )
    return 0 if worker.returncode in (0, 75) and ended else 1


def sweep(name: str, config: str, rows: str, *batches: str) -> int:
    """Run `kgqa bench`, and append each row as soon as it is measured.

    The sample of the steady step's run has different prompts enough for one batch of 64; more get their own sample.
    """
    sampled = (run for run in Path(config).parent.glob("run-*") if (run / "anchors.h5").exists())
    run = next(sampled, None) if len(batches) == 1 else None

    def row_done(document: dict[str, Any]) -> None:
        append(rows, "bench", name, gpu=document["gpu"], **document["rows"][-1])

    sizes = [int(batch) for batch in batches] or None
    document = bench(Path(config), run, batches=sizes, row_done=row_done)
    summary = {key: value for key, value in document.items() if key != "rows"}
    append(rows, "bench-summary", name, provenance=summary.pop("engine"), **summary)
    return 0


def peer(name: str, config: str, folder: str, rows: str) -> int:
    """The requests of a run through the engine process, then through LMDeploy's own pipeline; tokens per second."""
    from lmdeploy import GenerationConfig

    from kgqa_hpc.engines.lmdeploy import response_format
    from kgqa_hpc.engines.lmdeploy_loading import load

    loaded = load_config(Path(config))
    settings = loaded.engine_of(loaded.passes[0].name)
    run, sampled = open_run(Path(folder))
    requests = prompts_of(run.anchors, sampled, sys.maxsize).requests
    formats = {id(r.schema): response_format(r.schema) for r in requests if r.schema is not None}

    def row_done(peer: str, began: float, tokens: int) -> None:
        seconds = time.monotonic() - began
        append(rows, "peer", name, peer=peer, requests=len(requests), seconds=round(seconds, 2),
               tokens_per_s=round(tokens / seconds, 1))  # fmt: skip

    with EngineProcess(settings, Path(f"{rows}.{name}.log"), STALL_S) as engine:
        window = engine.start().window
        engine.preflight(list({id(r.schema): r.schema for r in requests if r.schema is not None}.values()))
        for again in range(2):  # the first time, no prefix is cached
            began, sent, answers = time.monotonic(), 0, list[Response]()
            while len(answers) < len(requests):
                free = window - (sent - len(answers))
                engine.send([r._replace(id=f"{again}/{r.id}") for r in requests[sent : sent + free]])
                sent = min(sent + free, len(requests))
                answers += engine.receive(1.0)
            row_done("kgqa", began, sum(answer.completion_tokens for answer in answers))
    pipe, _ = load(settings)
    wanted = [
        GenerationConfig(
            max_new_tokens=r.max_tokens, do_sample=r.temperature > 0, temperature=r.temperature or 1.0,
            random_seed=r.seed, response_format=formats.get(id(r.schema)),
        )
        for r in requests
    ]  # fmt: skip
    for _ in range(2):
        began = time.monotonic()
        answered = pipe([list(r.messages) for r in requests], gen_config=wanted)
        row_done("lmdeploy", began, sum(answer.generate_token_len for answer in answered))
    pipe.close()
    return 0


def random_awq(folder: str, tokenizer: str, size: str = "8B") -> int:
    """A model folder in AWQ's format: weights of a spread of 0.02, with the tokenizer of another model."""
    hidden, wide, layers, heads, kv_heads = (4096, 14336, 32, 32, 8) if size == "8B" else (256, 512, 2, 4, 2)
    source, target = Path(tokenizer), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.name.startswith(
            ("tokenizer", "special_tokens", "vocab", "merges", "chat_template", "generation")
        ):
            shutil.copy(file, target)
    config = json.loads((source / "config.json").read_text())
    vocabulary = int(config["vocab_size"])
    config = {
        **{key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config},
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": wide,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "head_dim": hidden // heads, "vocab_size": vocabulary, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float16",
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True,
                                "version": "gemm"},
    }  # fmt: skip
    (target / "config.json").write_text(json.dumps(config, indent=1))
    tensors = _tensors(hidden, wide, layers, kv_heads * hidden // heads, vocabulary)
    _write_safetensors(target / "model.safetensors", tensors)
    return 0


def _tensors(
    hidden: int, wide: int, layers: int, narrow: int, vocabulary: int
) -> dict[str, tuple[str, list[int]]]:
    """Type and shape of each tensor, by its name on the hub."""
    linear = {
        "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (hidden, narrow),
        "self_attn.v_proj": (hidden, narrow), "self_attn.o_proj": (hidden, hidden),
        "mlp.gate_proj": (hidden, wide), "mlp.up_proj": (hidden, wide), "mlp.down_proj": (wide, hidden),
    }  # fmt: skip
    tensors = {f"{name}.weight": ("F16", [vocabulary, hidden]) for name in ("model.embed_tokens", "lm_head")}
    tensors["model.norm.weight"] = ("F16", [hidden])
    for layer in range(layers):
        stem = f"model.layers.{layer}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{stem}.{norm}.weight"] = ("F16", [hidden])
        for name, (rows, columns) in linear.items():
            tensors[f"{stem}.{name}.qweight"] = ("I32", [rows, columns // 8])
            tensors[f"{stem}.{name}.qzeros"] = ("I32", [rows // GROUP, columns // 8])
            tensors[f"{stem}.{name}.scales"] = ("F16", [rows // GROUP, columns])
    return tensors


def _write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> None:
    import numpy as np

    header, end = {}, 0
    for name, (kind, shape) in tensors.items():
        size = math.prod(shape) * (2 if kind == "F16" else 4)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    random = np.random.default_rng(0)
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (_, shape) in tensors.items():
            count = math.prod(shape)
            if name.endswith("qweight"):
                file.write(random.bytes(4 * count))
            elif name.endswith("qzeros"):
                file.write(b"\x88" * (4 * count))  # the middle: every weight lies around 0
            elif name.endswith(("scales", "norm.weight")):
                file.write(np.full(count, 0.02 / 4.6 if "scales" in name else 1.0, np.float16).tobytes())
            else:
                file.write((0.02 * random.standard_normal(count, np.float32)).astype(np.float16).tobytes())


STEPS = {"answer": answer, "steady": steady, "sweep": sweep, "peer": peer, "random-awq": random_awq}

if __name__ == "__main__":
    os.environ.setdefault("TQDM_DISABLE", "1")
    sys.exit(STEPS[sys.argv[1]](*sys.argv[2:]))
