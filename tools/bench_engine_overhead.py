#!/usr/bin/env python3
"""What the engine process costs: round trips a second with an engine that takes no time, and the embedded
engine beside a bare loop over the same prompts.

    tools/bench_engine_overhead.py                  both
    tools/bench_engine_overhead.py --requests 50000 --prompts 0      the first only

Prints one line each. The two loops of the second take turns, request by request, so that a busy machine slows
both alike.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.config import CpuEngineConfig, ScriptedEngineConfig
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.runtime.supervisor import EngineProcess

STATIC = "Write one question about the nodes below and its answer, as JSON. " + " ".join(
    f"Rule {n}: use only what the graph shows, and name node {n} if there is one." for n in range(12)
)
WINDOW = 512
SCHEMA = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 20, "maxLength": 160},
        "answer": {"type": "string", "minLength": 20, "maxLength": 240},
    },
    "required": ["question", "answer"],
}


def request(number: int, **settings: Any) -> Request:
    """A request of the usual size: long instructions, three nodes."""
    nodes = f"Nodes:\n- 0: Ataxia {number}\n- 1: Scoliosis\n- 2: Hypotonia {number % 7}"
    messages = ({"role": "system", "content": STATIC}, {"role": "user", "content": nodes})
    return Request(f"item-{number}/generate/0", messages, seed=number, schema=SCHEMA, **settings)


def round_trips(count: int, folder: Path) -> str:
    """An engine without latency behind the process boundary, a full window of requests in flight."""
    requests = [request(n) for n in range(count)]
    with EngineProcess(ScriptedEngineConfig(), folder / "scripted.log") as engine:
        engine.start()
        began, cpu, sent, done = time.perf_counter(), _cpu(), 0, 0
        while done < count:
            free = WINDOW - (sent - done)
            if free >= WINDOW // 4 or sent - done == 0:
                engine.send(requests[sent : sent + free])
                sent = min(sent + free, count)
            done += len(engine.receive(1.0))
        seconds, ours = time.perf_counter() - began, _cpu() - cpu
    total = ours + _children_cpu()
    return (
        f"round trips   {count / seconds:,.0f} a second; CPU per request {1e6 * ours / count:.0f} µs in the "
        f"worker, {1e6 * total / count:.0f} µs with the scripted engine and its start"
    )


def beside_a_bare_loop(count: int, folder: Path) -> str:
    """Seconds of the embedded engine in its process, and of llama.cpp called as simply as can be."""
    from kgqa_hpc.engines import grammar
    from kgqa_hpc.engines.cpu import bundled_model, usable_cores
    from kgqa_hpc.engines.llama import LlamaServer

    bare = LlamaServer(bundled_model(), 1, 4096, usable_cores(), None)
    rules = grammar.gbnf(SCHEMA, ascii_only=True)
    spent = {"bare": 0.0, "ours": 0.0}
    tokens = {"bare": 0, "ours": 0}
    with EngineProcess(CpuEngineConfig(), folder / "cpu.log") as engine:
        engine.start()
        for number in range(-1, count):  # the first is for warming up
            asked = request(number, max_tokens=300, temperature=0.8)
            began = time.perf_counter()
            prompt = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in asked.messages)
            answer = bare.complete(
                {
                    "prompt": f"{prompt}<|im_start|>assistant\n",
                    "max_tokens": 300,
                    "temperature": 0.8,
                    "seed": number,
                    "grammar": rules,
                    "cache_prompt": True,
                }
            )
            between = time.perf_counter()
            engine.send([asked])
            while not (answers := engine.receive(60.0)):
                pass
            if number >= 0:
                spent["bare"] += between - began
                spent["ours"] += time.perf_counter() - between
                tokens["bare"] += answer.completion_tokens
                tokens["ours"] += answers[0].completion_tokens
    rates = {name: tokens[name] / spent[name] for name in spent}
    return (
        f"cpu engine    {rates['ours']:.1f} tokens a second, a bare loop {rates['bare']:.1f}: "
        f"{rates['ours'] / rates['bare']:.3f} of it over {count} prompts"
    )


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def _children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=50_000, help="for the round trips")
    parser.add_argument("--prompts", type=int, default=24, help="for the embedded engine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.requests:
            print(round_trips(options.requests, Path(folder)), flush=True)
        if options.prompts:
            print(beside_a_bare_loop(options.prompts, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
