#!/usr/bin/env python3
"""Measure one worker: its overhead per item, and the share of the time that it keeps a modelled GPU busy.

    tools/bench_scheduler.py                     both
    tools/bench_scheduler.py --busy-items 0 --items 20000 --shard-size 128 --profile     the overhead only
    tools/bench_scheduler.py --items 0 --busy-items 269574 --batch 64                    the busy share only

Overhead: a real `kgqa run` on a temporary run folder. The scripted engine in its child process answers at once, so
the time is that of prompts, messages, parsing, journal lines, group commits and results. A GPU completes a few items a
second; a worker that can handle 2,000 leaves it 99.9 % of the time. The worker's rate is items over its processor
time, which hardly depends on other load.

Busy share: the same `kgqa run`, its engine replaced by the model of a continuously batching GPU
(kgqa_hpc/engines/scripted.py) that has a clock of its own, so that the outcome depends neither
on this machine nor on its load. The busy share is the share of the places in the batch that write an answer, from the
first token to the last. It is compared with the same answers on the same model in the order of the original scripts:
calls of so many questions, each of which waits for its last answer, then the same with judgements. `ratio` is our share
over theirs. Loading the model, which the original did for every call, is not counted. The model of the GPU compares
schedules; it does not tell the speed of a card.
"""

import argparse
import cProfile
import pstats
import random
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation
from kgqa_hpc.config import parse_config
from kgqa_hpc.engines.engine import LOAD, EngineInfo, Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.scripted import Batch, Cost, GpuModel, ScriptedEngine, ScriptedSettings
from kgqa_hpc.runs import fingerprint
from kgqa_hpc.status.forecast import PUBLISHED_TOKENS, PUBLISHED_TOKENS_PER_S
from kgqa_hpc.store.partition import partition
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import write_anchors
from kgqa_hpc.work import pass_worker as worker
from kgqa_hpc.work import run as runtime_run

NAMES = ("Abnormality of the cerebral cortex", "Delayed speech and language development", "Ataxia", "Seizure")
# Of an answer's length around the mean (748 tokens a question, 456 a judgement: derived from the published rates a
# day at 241 tokens/s, which is assumed for the judge). The widest that keeps questions within the published limit of
# 1,000 new tokens; chosen.
SPREAD = 1 / 3
BATCH = 128  # sequences; what the original's LMDeploy 0.6.1 takes on an A6000 when nothing is said
# Prompts per call in the original's scripts for generating and filtering, 3-ds_generation and 4-ds_filtering
# of github.com/ieeta-pt/BioGraphletQA; smaller ones beside them, 512 being our default shard.
PUBLISHED_CALLS = {"generate": 30_000, "judge": 50_000}
CALLS = (PUBLISHED_CALLS, *({"generate": size, "judge": size} for size in (5000, 512, 128)))
HANDLING = 0.002  # s of the worker per answer; what the overhead is below, on a slow machine


@dataclass(frozen=True)
class Measured:
    """`wall` and `processor` seconds of the worker process, engine start included; `memory` in MB, at
    its peak.
    """

    items: int
    wall: float
    processor: float
    memory: float

    def text(self) -> str:
        return (
            f"{self.items:,} items in {self.wall:.1f} s: {self.items / self.wall:,.0f} a second; "
            f"{self.items / self.processor:,.0f} a second of one core; "
            f"{1e6 * self.processor / self.items:,.0f} us per item; peak memory {self.memory:,.0f} MB"
        )


@dataclass(frozen=True)
class Busy:
    """The share of all places in the batch that was writing, and the hours from first to last token."""

    share: float
    hours: float


class ModelGpu:
    """Replaces the worker's engine process: gives scripted answers at the times of the GPU model.

    `now` is the model's clock in seconds. Nothing happens between two answers, so waiting for one moves it
    there. `lengths` are the tokens of all answers so far, by step.
    """

    def __init__(self, config: ScriptedSettings, *_: object) -> None:
        instant = GpuModel(batch=config.latency.batch)
        self._scripted = ScriptedEngine(config.model_copy(update={"latency": instant}))
        self._batch: Batch[Response] = Batch(config.latency)
        self.now = 0.0
        self.last = 0.0
        self.lengths: dict[str, list[int]] = {"generate": [], "judge": []}
        self.server_load = dict.fromkeys(LOAD, 0.0)

    @property
    def info(self) -> EngineInfo:
        return self._scripted.info

    @property
    def busy(self) -> Busy:
        return _busy(self._batch, self.last)

    def start(self, stop: Callable[[], bool]) -> EngineInfo:
        return self.info

    def preflight(self, schemas: Sequence[Mapping[str, Any]], stop: Any = None) -> None:
        self._scripted.preflight(schemas)

    def send(self, requests: Sequence[Request]) -> None:
        mailbox = Mailbox()
        mailbox.put(list(requests))
        mailbox.close()
        for request, response in zip(requests, self._scripted.generate(mailbox), strict=True):
            step = request.id.split("/")[1]
            spread = random.Random(request.seed).uniform(-SPREAD, SPREAD)
            tokens = round(PUBLISHED_TOKENS[step] * (1 + spread))
            self.lengths[step].append(tokens)
            self._batch.add(response, Cost(0, 0, tokens), self.now)

    def receive(self, timeout: float) -> list[Response]:
        due = self._batch.next_time()
        if due is None or (due > self.now and timeout == 0):
            return []
        self.now = max(self.now, due)
        answers = self._batch.pop_ready(self.now)
        self.last = self.now
        self.now += HANDLING * len(answers)
        return answers

    def cancel(self) -> None:
        """Do nothing: the model does not support cancellation."""

    close = kill = cancel


def measure(folder: Path, items: int, shard_size: int) -> Measured:
    """Make a run of `items` anchors in `folder` and work through it."""
    run = _run(folder, items, {"kind": "scripted"}, shard_size)
    wall, processor = time.monotonic(), time.process_time()
    runtime_run.run_command(run.path)
    spent = time.monotonic() - wall, time.process_time() - processor
    return Measured(items, *spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def keep_busy(folder: Path, items: int, batch: int = BATCH, shard_size: int = 512) -> ModelGpu:
    """Work through a run of `items` anchors in `folder` with the model as the worker's engine."""
    gpus: list[ModelGpu] = []

    def engine(*arguments: Any) -> ModelGpu:
        gpus.append(ModelGpu(*arguments))
        return gpus[-1]

    latency = {"batch": batch, "decode_tokens_per_s": PUBLISHED_TOKENS_PER_S / batch}
    run = _run(folder, items, {"kind": "scripted", "latency": latency}, shard_size)
    # A worker's name decides its order of the shards, and has a random part.
    name = mock.patch.object(runtime_run, "worker_name", return_value="model")
    with name, mock.patch.object(worker, "EngineProcess", engine):
        runtime_run.run_command(run.path)
    (gpu,) = gpus
    return gpu


def with_barriers(lengths: Mapping[str, Sequence[int]], calls: Mapping[str, int], batch: int = BATCH) -> Busy:
    """All questions, then all judgements, in calls of so many, each of which waits for its last answer."""
    decode = PUBLISHED_TOKENS_PER_S / batch
    gpu: Batch[int] = Batch(GpuModel(batch=batch, decode_tokens_per_s=decode))
    now = 0.0
    for step in ("generate", "judge"):
        for start in range(0, len(lengths[step]), calls[step]):
            for tokens in lengths[step][start : start + calls[step]]:
                gpu.add(tokens, Cost(0, 0, tokens), now)
            while (due := gpu.next_time()) is not None:
                now = due
                gpu.pop_ready(now)
    return _busy(gpu, now)


def comparison(gpu: ModelGpu, batch: int) -> Iterator[str]:
    """Lines that compare our busy share with that of the original's calls."""
    ours, items = gpu.busy, len(gpu.lengths["generate"])
    means = " + ".join(f"{sum(tokens) / items:.0f}" for tokens in gpu.lengths.values())
    rate = f"{PUBLISHED_TOKENS_PER_S:.0f} tokens/s together"
    yield f"{items:,} items of {means} tokens, {batch} at once, {rate}, simulated"
    yield f"{'schedule':<34}{'busy share':>10}{'hours':>9}{'ratio':>8}"
    yield f"{'kgqa run, one worker':<34}{ours.share:>10.4f}{ours.hours:>9.2f}"
    for calls in CALLS:
        barrier = with_barriers(gpu.lengths, calls, batch)
        name = f"barriers, calls of {calls['generate']:,}"
        if calls is PUBLISHED_CALLS:
            name = f"the original's {calls['generate']:,} and {calls['judge']:,}"
        ratio = ours.share / barrier.share
        yield f"{name:<34}{barrier.share:>10.4f}{barrier.hours:>9.2f}{ratio:>8.4f}"


def _busy(gpu: Batch[Any], last: float) -> Busy:
    return Busy(gpu.busy_sequence_s / (gpu.latency.batch * last), last / 3600)


def _run(folder: Path, items: int, engine: dict[str, Any], shard_size: int) -> RunFolder:
    data: dict[str, Any] = {"engine": engine, "runtime": {"shard_size": shard_size}}
    config = parse_config(data, "the benchmark")
    run = RunFolder.create(folder / "run", config.plain(), fingerprint(config))
    write_anchors(run.anchors, _anchors(items), {"seed": 1})
    partition(run, shard_size)
    return run


def _anchors(count: int) -> Iterator[dict[str, Any]]:
    """Graphlets of four nodes with names of real length."""
    for number in range(count):
        nodes = tuple(Node(f"HP:{number:06d}{k}", f"{NAMES[k]} {number}", "phenotype") for k in range(4))
        edges = ((0, 1), (1, 2), (2, 3))
        relations = tuple(Relation(a, b, "is a") for a, b in edges)
        yield Anchor(
            f"g04-{number:016x}", "graphlet", "shape 4", nodes, relations, data={"shape": 4}
        ).to_dict()


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--items", type=int, default=5000, help="number of requests for the overhead")
    parser.add_argument(
        "--busy-items", type=int, default=30_000, help="number of requests for the busy share"
    )
    parser.add_argument("--batch", type=int, default=BATCH, help="sequences at once in the model")
    parser.add_argument("--shard-size", type=int, default=512)
    parser.add_argument("--profile", action="store_true", help="profile the run, which makes it slower")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kgqa-bench-"))
    profile = cProfile.Profile()
    try:
        if args.items:
            if args.profile:
                profile.enable()
            measured = measure(folder / "overhead", args.items, args.shard_size)
            profile.disable()
            print(measured.text(), flush=True)
        if args.busy_items:
            gpu = keep_busy(folder / "busy", args.busy_items, args.batch, args.shard_size)
            print(*comparison(gpu, args.batch), sep="\n")
    finally:
        shutil.rmtree(folder)
    if args.profile and args.items:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
