"""`kgqa bench`: speed of a configuration's engine with real prompts, over the anchors of a run or a new small
sample.
"""

import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig, load_config
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.scripted.engine import ScriptedEngine, ScriptedSettings
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.runs.chain import build_chain, kind_of, set_engine
from kgqa_hpc.stages import import_graph, sample
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import begin
from kgqa_hpc.store.shards import AnchorsFile
from kgqa_hpc.trials.measure import Prompts, measure
from kgqa_hpc.work.item_scheduler import Limits, Scheduler, Task

_REHEARSED = 64  # items processed at the same time, as in a worker


def bench(
    config_file: Path,
    run: Path | None,
    *,
    number: int | None = None,
    batches: list[int] | None = None,
    row_done: Callable[[dict[str, Any]], None] = lambda document: None,
) -> dict[str, Any]:
    """Measure the configuration's engine with prompts of `run`; without a run, with prompts over the configured graph.

    `row_done` is called with the document after each row.
    """
    config = load_config(config_file)
    steps = config.passes[0].steps
    if not any(STEPS.get(step.use).asks_with(step) for step in steps):
        raise InputError(
            f"step {steps[0].label} asks nobody, so there is nothing to measure",
            "name a configuration whose steps ask an engine",
        )
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch:

        def prompts(count: int) -> Prompts:
            if run is None:
                sampled, anchors = small_sample(config, count, Path(scratch, "run"))
                return prompts_of(anchors, sampled, count)
            opened, of_run = open_run(run)
            return prompts_of(opened.anchors, of_run, count)

        engine = config.engine_of(config.passes[0].name)
        return measure(engine, prompts, Path(scratch, "engine.log"), batches, number, row_done)


def prompts_of(anchors: Path, config: RunConfig, number: int) -> Prompts:
    """At most `number` requests of all steps of the first pass, in the order in which a worker sends them.

    Later steps see answers of the scripted engine, which are as long as a model's and differ between items.
    """
    chain = build_chain(config, config.passes[0].name)
    rehearsal = _Rehearsal()
    set_engine(chain, rehearsal.info)
    ended = set[str]()
    limits = Limits(_REHEARSED, config.runtime.attempts)
    scheduler = Scheduler(
        chain, rehearsal, limits, config.seed, lambda task, over: ended.add(task.item.id) if over else None
    )
    kind = kind_of(config)
    scheduler.add(Task(begin(kind, anchor), "bench") for anchor in some_anchors(anchors, number))
    while len(rehearsal.requests) < number and (scheduler.waiting or scheduler.in_flight):
        scheduler.turn(0)
    of_ended = sum(request.id.rsplit("/", 2)[0] in ended for request in rehearsal.requests)
    steps = tuple(step.use for step in config.passes[0].steps)
    return Prompts(rehearsal.requests[:number], of_ended / len(ended) if of_ended else 1.0, steps)


class _Rehearsal:
    """A scripted engine that records its requests."""

    def __init__(self) -> None:
        self._engine = ScriptedEngine(ScriptedSettings())
        self._answers: list[Response] = []
        self.info = self._engine.info
        self.requests: list[Request] = []

    def start(self, stop: Callable[[], bool]) -> object:
        return self.info

    def send(self, requests: Sequence[Request]) -> None:
        self.requests += requests
        self._answers += self._engine.generate(Mailbox.holding(list(requests)))

    def receive(self, timeout: float) -> list[Response]:
        answers, self._answers = self._answers, []
        return answers

    def cancel(self) -> None:
        """Does nothing, because no request is in flight."""


def some_anchors(path: Path, number: int) -> list[Anchor]:
    """`number` anchors at equal distances in the file, to cover many groups. Raises InputError for an empty file."""
    with AnchorsFile(path) as file:
        rows = islice(file.rows(), 0, None, max(len(file) // number, 1))
        anchors = [Anchor.from_dict(row) for row in islice(rows, number)]
    if not anchors:
        raise InputError(f"{path} holds no anchors", "sample some first")
    return anchors


def small_sample(config: RunConfig, number: int, folder: Path) -> tuple[RunConfig, Path]:
    """The configuration with a sample of about `number` anchors, and the anchors.h5 of its run, created in `folder`."""
    anchors = config.anchors
    key = type(anchors).size
    size = 1 + number // 29 if key == "per_shape" else number
    if hasattr(anchors, key):
        config = config.model_copy(update={"anchors": anchors.model_copy(update={key: size})})
    run = create_run(folder, config)
    import_graph(run.path)
    sample(run.path)
    return config, run.anchors


def header(document: dict[str, Any]) -> list[str]:
    """The lines above the rows."""
    engine = " ".join(part for key, part in document["engine"].items() if key in ("name", "version", "model"))
    total, active = document["parameters"], document["active_parameters"]
    sizes = ""
    if total and active:
        sizes = f", {total / 1e9:,.1f} billion parameters, {active / 1e9:,.1f} used by a token"
    return [
        f"engine    {engine} on {document['gpu'] or 'no GPU'}{sizes}",
        f"start     {document['load_s']:.1f} s to load, {document['preflight_s']:.2f} s to compile the schemas",
        "",
        "mode      batch  decode tok/s  prefill tok/s  requests/s  first s  total s  busy  prefix  lost",
    ]


def row_line(row: dict[str, Any]) -> str:
    """A row of the table."""
    medians = (row[key]["median"] for key in ("first_token_s", "latency_s"))
    seconds = ["-" if value is None else f"{value:.2f}" for value in medians]
    notes = "" if row["steady"] else "  never full"
    notes += f"  {row['repeated']} prompts sent before" if row["repeated"] else ""
    return (
        f"{row['mode']:<9} {row['batch']:>5}  {row['decode_tokens_per_s']:>12,.1f}  "
        f"{row['prefill_tokens_per_s']:>13,.1f}  {row['requests_per_s']:>10.2f}  {seconds[0]:>7}  {seconds[1]:>7}  "
        f"{_share(row['gpu_busy']):>4}  {_share(row['prefix_hit_share']):>6}  {row['failed']:>4}{notes}"
    )


def summary(document: dict[str, Any]) -> list[str]:
    """The lines below the rows."""
    best = document["best"]
    return [
        "",
        f"best      {best['decode_tokens_per_s']:,.1f} answer tokens/s guided, {best['batch']} requests in flight",
        f"grammar   {_share(document['grammar_share'])} of the time of an answer",
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
