"""`kgqa preview`: process a few items with all steps before a run exists; show prompts, answers and cost.

Chain, scheduler and engine process are those of a run. Times are measured on this machine with few requests in flight;
`kgqa bench` measures how much faster a full batch is, with the prompts of `prompts_of`.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.show import value_text
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.process import EngineProcess, trial_log
from kgqa_hpc.engines.scripted import ScriptedSettings
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import create_run
from kgqa_hpc.runs.chain import build_chain, kind_of, schemas_of, set_engine
from kgqa_hpc.runs.checks import missing_packages, require_packages, require_servers
from kgqa_hpc.stages import import_graph, sample
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import Item, begin
from kgqa_hpc.store.shards import AnchorsFile
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import about, duration, printable
from kgqa_hpc.work.item_scheduler import TRIAL, Limits, Scheduler, Task

MANY = 100_000  # number of items of the forecast; about the size of the published dataset
_REHEARSED = 64  # items processed at the same time, as in a worker


class _Exchange(NamedTuple):
    request: Request
    response: Response
    seconds: float


class _Recorder(EngineProcess):
    """An engine process that also keeps each request, its answer and the duration."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.exchanges: list[_Exchange] = []
        self._began: dict[str, tuple[Request, float]] = {}

    def send(self, requests: Sequence[Request]) -> None:
        self._began.update((request.id, (request, time.monotonic())) for request in requests)
        super().send(requests)

    def receive(self, timeout: float) -> list[Response]:
        responses = super().receive(timeout)
        for response in responses:
            request, began = self._began.pop(response.id)
            self.exchanges.append(_Exchange(request, response, time.monotonic() - began))
        return responses


def preview(whole: RunConfig, number: int) -> dict[str, Any]:
    """Process `number` items with all steps of a configuration, without a run.

    Returns the history of each item and a forecast for MANY items as plain data. Raises ConfigError, PromptError,
    EngineConfigError, EngineError, InputError for no items.
    """
    if number < 1:
        raise InputError(f"a preview of {number} items", "ask for 1 or more")
    require_packages(whole, "graph", "anchors", "engine", "passes")
    for line in missing_packages(whole, "dataset"):
        note(f"note: {line}")
    require_servers(whole.engines)
    exchanges: list[_Exchange] = []
    with tempfile.TemporaryDirectory(prefix="kgqa-preview-") as scratch:
        config, anchors = small_sample(whole, number, Path(scratch, "run"))
        kind = kind_of(config)
        items = [begin(kind, anchor) for anchor in some_anchors(anchors, number)]
        with trial_log() as log:
            seconds = sum(_process(config, part.name, items, log, exchanges) for part in config.passes)
    documents = [_item_report(item, exchanges) for item in items]
    notes = _empty_columns(config, items)
    count = max(len(items), 1)
    prompt, completion = (
        sum(document["tokens"][key] for document in documents) / count for key in ("prompt", "completion")
    )
    return {
        "items": documents,
        **({"notes": notes} if notes else {}),
        "seconds": round(seconds, 3),
        "per_item": {
            "seconds": round(seconds / count, 3),
            "prompt": round(prompt, 1),
            "completion": round(completion, 1),
        },
        "forecast": {
            "items": MANY,
            "hours": float(f"{MANY * seconds / count / 3600:.3g}"),
            "prompt_tokens": round(MANY * prompt),
            "completion_tokens": round(MANY * completion),
            "in_flight": len(items),
        },
    }


def _process(
    config: RunConfig, name: str, items: Sequence[Item], log: Path, exchanges: list[_Exchange]
) -> float:
    """Run one pass over the open items; returns its duration in seconds without the time to load the engine."""
    chain = build_chain(config, name)
    tasks = [Task(item, TRIAL) for item in items if item.status == "open"]
    ended: list[Task] = []
    with _Recorder(config.engine_of(name), log, config.runtime.engine_stall) as engine:
        engine.described = partial(set_engine, chain)
        engine.start()
        engine.preflight(schemas_of(chain))
        scheduler = Scheduler(
            chain,
            engine,
            Limits(max(len(tasks), 1), config.runtime.attempts),
            lambda task, over: ended.append(task) if over else None,
            last=name == config.passes[-1].name,
        )
        began = time.monotonic()
        scheduler.add(tasks)
        while len(ended) < len(tasks):
            scheduler.turn(1.0)
        exchanges += engine.exchanges
        return time.monotonic() - began


def _empty_columns(config: RunConfig, items: Sequence[Item]) -> list[str]:
    """A warning for each step column that has no value in any item, if any item was accepted."""
    if not any(item.status == "accepted" for item in items):
        return []
    filled = set[str]()
    for item in items:
        filled.update(*(item.annotations, item.output, item.features, *(item.records or ())))
    columns = [(step, column) for step in config.steps for column in STEPS.get(step.use).columns_for(step)]
    return [
        f"column {column.name} of step {step.label} has no value in any of these items"
        for step, column in columns
        if column.name not in filled
    ]


def _item_report(item: Item, exchanges: Sequence[_Exchange]) -> dict[str, Any]:
    of_item = [exchange for exchange in exchanges if exchange.request.id.startswith(f"{item.id}/")]
    return {
        **{key: value for key, value in item.to_record().items() if key not in ("trace", "decided")},
        "group": item.anchor.group,
        "tokens": {
            "prompt": sum(exchange.response.prompt_tokens for exchange in of_item),
            "completion": sum(exchange.response.completion_tokens for exchange in of_item),
        },
        "seconds": round(sum(exchange.seconds for exchange in of_item), 3),
        "requests": [
            {
                "id": request.id.removeprefix(f"{item.id}/"),
                "messages": list(request.messages),
                "text": response.text,
                "finish": response.finish,
                "error": response.error,
                "seconds": round(seconds, 3),
            }
            for request, response, seconds in of_item
        ],
    }


def lines(document: dict[str, Any]) -> Iterator[str]:
    """The preview as lines of text."""
    for item in document["items"]:
        reason = f": {item['reason']}" if item["reason"] else ""
        yield printable(f"{item['id']}  {item['group']}  {item['status']}{reason}")
        for request in item["requests"]:
            yield f"  {request['id']}, {request['seconds']:.1f} s, {request['finish']}"
            yield from (f"    > {printable(line)}" for line in request["messages"][-1]["content"].split("\n"))
            yield f"    < {printable(request['text'] or request['error'] or '')}"
        for part in ("output", "verdicts", "features", "annotations"):
            yield from (f"  {printable(name):<12} {value_text(value)}" for name, value in item[part].items())
        tokens = item["tokens"]
        yield f"  {tokens['prompt']:,} tokens read, {tokens['completion']:,} written, {item['seconds']:.1f} s"
        yield ""
    yield from document.get("notes", ())
    per_item, all_ = document["per_item"], document["forecast"]
    tokens = f"{per_item['prompt']:,.0f} tokens read, {per_item['completion']:,.0f} written"
    yield f"an item   {tokens}, {about(per_item['seconds'], 2)} s"
    yield (
        f"{all_['items']:,} would take {about(all_['prompt_tokens'] / 1e6)} million tokens read and "
        f"{about(all_['completion_tokens'] / 1e6)} million written; {duration(all_['hours'] * 3600)} if only "
        f"{all_['in_flight']} were in flight as here, far less in full batches (kgqa bench measures them)"
    )


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


class Prompts(NamedTuple):
    """Requests in the order of a run, the mean number of requests per item, and the steps that send them."""

    requests: list[Request]
    per_item: float = 1.0
    steps: tuple[str, ...] = ("generate",)


def prompts_of(anchors: Path, config: RunConfig, number: int) -> Prompts:
    """At most `number` requests of all steps of the first pass, in the order in which a worker sends them.

    The scripted engine answers them; its answers are as long as a model's and differ between items.
    """
    chain = build_chain(config, config.passes[0].name)
    ended = set[str]()
    with trial_log() as log, _Recorder(ScriptedSettings(), log, config.runtime.engine_stall) as engine:
        engine.described = partial(set_engine, chain)
        engine.start()
        limits = Limits(_REHEARSED, config.runtime.attempts)
        scheduler = Scheduler(
            chain, engine, limits, lambda task, over: ended.add(task.item.id) if over else None
        )
        kind = kind_of(config)
        scheduler.add(Task(begin(kind, anchor), TRIAL) for anchor in some_anchors(anchors, number))
        while len(engine.exchanges) < number and (scheduler.waiting or scheduler.in_flight):
            scheduler.turn(1.0)
        requests = [exchange.request for exchange in engine.exchanges]
    of_ended = sum(request.id.rsplit("/", 2)[0] in ended for request in requests)
    steps = tuple(step.use for step in config.passes[0].steps)
    return Prompts(requests[:number], of_ended / len(ended) if of_ended else 1.0, steps)
