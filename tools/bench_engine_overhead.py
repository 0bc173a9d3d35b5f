#!/usr/bin/env python3
"""Measure the cost of the engine process: round trips a second with an engine that answers at once, and the
embedded engine beside a bare loop over the same prompts.

    tools/bench_engine_overhead.py                                   both, about two minutes
    tools/bench_engine_overhead.py --requests 50000 --seconds 0      the first only

Prints one line for each measurement. In the second one the two loops take turns over the demo's prompts, request by
request, so that a busy machine slows both alike; the standard error shows the remaining noise. All answers have the
same number of tokens, so both loops do the same work. There is one thread, because threads that wait for each other
on a busy machine spend processor time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation, graph_variables
from kgqa_hpc.engines.cpu import CpuSettings
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.engines.scripted import ScriptedSettings
from kgqa_hpc.prompts.prompt import load_prompt

STATIC = "Write one question about the nodes below and its answer, as JSON. " + " ".join(
    f"Rule {n}: use only what the graph shows, and name node {n} if there is one." for n in range(12)
)
WINDOW = 512
MAX_TOKENS = 64  # of each of the embedded engine's answers; about what the demo's have
NAMES = ("Ataxia", "Seizure", "Delayed speech and language development", "Microcephaly", "Short stature")
FEWEST = 3  # prompts, however slow the machine
SCHEMA = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "minLength": 20, "maxLength": 160},
        "answer": {"type": "string", "minLength": 20, "maxLength": 240},
    },
    "required": ["question", "answer"],
}
# A schema whose answers never end within MAX_TOKENS.
ENDLESS = {
    "type": "object",
    "properties": {"question": {"type": "string", "minLength": 500, "maxLength": 600}},
    "required": ["question"],
}


def request(number: int, **settings: Any) -> Request:
    """A request of the usual size: long instructions, three nodes."""
    nodes = f"Nodes:\n- 0: Ataxia {number}\n- 1: Scoliosis\n- 2: Hypotonia {number % 7}"
    messages = ({"role": "system", "content": STATIC}, {"role": "user", "content": nodes})
    return Request(f"item-{number}/generate/0", messages, seed=number, schema=SCHEMA, **settings)


def graphlet(number: int) -> tuple[dict[str, str], ...]:
    """The demo's prompt for a path of four nodes."""
    names = [NAMES[(number + step) % len(NAMES)] for step in (0, 1, 3, 4)]
    nodes = tuple(Node(f"HP:{number:07d}", name, "phenotype") for name in names)
    edges = ((0, 1), (1, 2), (2, 3))
    relations = tuple(Relation(a, b, "is a") for a, b in edges)
    anchor = Anchor(f"g04-{number:016x}", "graphlet", "shape 4", nodes, relations, data={"shape": 4})
    return load_prompt("demo").render(graph_variables(anchor))


def round_trips(count: int, folder: Path) -> str:
    """Measure round trips to an engine process without latency, with a full window of requests in flight."""
    requests = [request(n) for n in range(count)]
    with EngineProcess(ScriptedSettings(), folder / "scripted.log") as engine:
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


@dataclass
class Spent:
    """Number of generated tokens, with wall seconds and processor seconds."""

    tokens: int = 0
    clock: float = 0.0
    processor: float = 0.0

    def add(self, other: Spent) -> None:
        self.tokens += other.tokens
        self.clock += other.clock
        self.processor += other.processor


def beside_a_bare_loop(seconds: float, threads: int, folder: Path) -> str:
    """Compare the embedded engine in its process with a minimal loop over llama.cpp, for about `seconds`."""
    from kgqa_hpc.engines import grammar
    from kgqa_hpc.engines.cpu import LlamaServer, bundled_model

    bare_server = LlamaServer(bundled_model(), 1, 4096, threads, None)
    rules = grammar.ebnf(ENDLESS, ascii_only=True)
    with EngineProcess(CpuSettings(threads=threads), folder / "cpu.log") as engine:
        engine.start()
        child = psutil.Process(engine.pid)

        def bare(asked: Request) -> int:
            chat = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in asked.messages)
            settings = {
                "max_tokens": MAX_TOKENS,
                "temperature": 0.8,
                "seed": asked.seed,
                "cache_prompt": True,
            }
            prompt = f"{chat}<|im_start|>assistant\n"
            return bare_server.complete({"prompt": prompt, "grammar": rules, **settings}).completion_tokens

        def ours(asked: Request) -> int:
            engine.send([asked])
            while not (answers := engine.receive(60.0)):
                pass
            return answers[0].completion_tokens

        def measure(ask: Callable[[Request], int], asked: Request) -> Spent:
            clock, processor = time.perf_counter(), _cpu() + sum(child.cpu_times()[:2])
            tokens = ask(asked)
            used = _cpu() + sum(child.cpu_times()[:2]) - processor
            return Spent(tokens, time.perf_counter() - clock, used)

        totals, pairs, number = (Spent(), Spent()), [], 0
        for ask in (bare, ours):
            ask(Request("warm-up", graphlet(-1), 1, schema=ENDLESS))  # both read the instructions
        began = time.perf_counter()
        while time.perf_counter() - began < seconds or number < FEWEST:
            asked = Request(f"item-{number}", graphlet(number), MAX_TOKENS, 0.8, seed=number, schema=ENDLESS)
            # Alternate the order, because the second loop finds its data evicted from the caches.
            order = (bare, ours) if number % 2 else (ours, bare)
            spent = {ask: measure(ask, asked) for ask in order}
            for total, ask in zip(totals, (bare, ours), strict=True):
                total.add(spent[ask])
            pairs.append(_rate(spent[ours]) / _rate(spent[bare]))
            number += 1
    error = statistics.stdev(pairs) / number**0.5
    by_processor = totals[1].tokens / totals[1].processor / (totals[0].tokens / totals[0].processor)
    return (
        f"cpu engine    {_rate(totals[1]):.1f} tokens a second, a bare loop {_rate(totals[0]):.1f}: "
        f"{_rate(totals[1]) / _rate(totals[0]):.3f} of it by the clock (standard error {error:.3f}), "
        f"{by_processor:.3f} by processor time, over {number} prompts"
    )


def _rate(spent: Spent) -> float:
    """Tokens per second of the clock."""
    return spent.tokens / spent.clock


def _cpu() -> float:
    times = os.times()
    return times.user + times.system


def _children_cpu() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=20_000, help="number of round trips")
    parser.add_argument("--seconds", type=float, default=45.0, help="seconds of the embedded engine")
    parser.add_argument("--threads", type=int, default=1, help="of both; several wait for each other")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.requests:
            print(round_trips(options.requests, Path(folder)), flush=True)
        if options.seconds:
            print(beside_a_bare_loop(options.seconds, options.threads, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
