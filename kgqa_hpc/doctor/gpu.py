"""`kgqa doctor --gpu`: tests of the card, from a first kernel to a model on two cards.

They take minutes and load torch, so they run on request only, and each failure makes the command fail. The model is
made here: two small layers of random weights and a tokenizer of single bytes. Its words mean nothing, but every
part is used: loading, prefill, decoding, the grammar.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from kgqa_hpc.doctor.probes import Check, Fails, checked, gpu
from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.errors import KgqaError

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
        messages = done.stderr.strip().splitlines() or ["the test program ended without a message"]
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
    words = f"the answer does not follow its grammar: {answers[0].text[:80]}"
    raise Fails(words, "set engine.structured: none, and report this error", needed=True)
