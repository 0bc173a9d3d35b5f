"""Life of an item outside its steps: begin, end with checks of its record, and reconstruction of its requests.

Prompts are not stored with items. Chain, seed and earlier answers determine them, so replaying the recorded answers
gives each request exactly as it was sent, even if a later step changed its fields, and in every turn of a multi-turn
step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.columns import misfit
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.steps.item import PAIR, Done, Item, Outcome, Retry, finish
from kgqa_hpc.steps.step import Step


def begin(kind: AnchorKind, anchor: Anchor) -> Item:
    """A new item with the anchor kind's initial fields; its status is failed if the kind raises an exception."""
    try:
        return Item(anchor, output=kind.start(anchor))
    except Exception as problem:  # noqa: BLE001  it may be the code of an extension
        return Item(anchor, "failed", f"{anchor.kind}: {type(problem).__name__}: {problem}"[:200])


def end(item: Item, outcome: Outcome, kind: AnchorKind, step: str | None = None) -> None:
    """Close the item with `finish`.

    An item that is done without question and answer fails with the step's name; if the kind's record is invalid, the
    item fails with the kind's name as step.
    """
    records = [item.output] if item.records is None else item.records
    if isinstance(outcome, Done) and not all(name in fields for fields in records for name in PAIR):
        outcome = Retry("ended without question and answer", lost_as="failed")
        item.records = None  # so that merge makes no records of it
    problem = None if isinstance(outcome, Retry) else record_problem(item, kind)
    if problem is None:
        finish(item, outcome, step)
    else:
        finish(item, Retry(problem, lost_as="failed"), item.anchor.kind)
        item.output, item.records = {}, None


def record_problem(item: Item, kind: AnchorKind) -> str | None:
    """A reason why the kind's records for the item are invalid; None if they are valid or there are none."""
    records = [item.output] if item.records is None else item.records
    whole = [fields for fields in records if all(isinstance(fields.get(name), str) for name in PAIR)]
    try:
        return next(
            filter(None, (_problem(kind, kind.record(item.anchor, fields)) for fields in whole)), None
        )
    except Exception as problem:  # noqa: BLE001  it may be the code of an extension
        return f"{type(problem).__name__}: {problem}"[:200]


def _problem(kind: AnchorKind, fields: object) -> str | None:
    """A reason why a kind's record does not match its columns (names or value types); None if it does."""
    if not isinstance(fields, Mapping):
        return f"record() returned {fields!r:.80}"
    names = {column.name for column in kind.columns}
    for name in fields:
        if name not in names:
            return f"{name} is no column of it{did_you_mean(str(name), names)}"
    if missing := sorted(names - fields.keys()):
        return f"column {missing[0]} is not given"
    return misfit(kind.columns, fields)


def check_kind(kind: AnchorKind) -> None:
    """Raises ExtensionError for a kind without a sample anchor, or whose sample's record does not match its columns."""
    sample = getattr(kind, "sample", None)
    if not isinstance(sample, Anchor):
        raise ExtensionError(
            f"{KINDS.entry(kind.name)}: has no sample anchor", "give it `sample = Anchor(...)`"
        )
    try:
        fields = kind.record(sample, {"question": "?", "answer": "!", **kind.start(sample)})
    except Exception:  # noqa: BLE001  it may read what steps add; every item is looked at again
        return
    if problem := _problem(kind, fields):
        raise ExtensionError(f"{KINDS.entry(kind.name)}: {problem}", "mend its `columns` or its `record`")


def retrace(
    chain: Sequence[Step],
    item: Item,
    trace: Sequence[Mapping[str, Any]],
    run_seed: int,
    output: Mapping[str, Any],
) -> list[Request]:
    """The requests of `trace`, in its order; `item` is new and receives the recorded answers again.

    `output` is the recorded output of the item, for steps whose answers are not complete in the trace. `chain` holds
    the steps of all passes. The result is shorter than the trace if the chain no longer has one of its steps.
    """
    requests: list[Request] = []
    for step in chain:
        if len(requests) == len(trace):
            break
        if trace[len(requests)]["step"] != step.label:
            if not step.asks_about(item):
                step.run(item)
            continue
        while len(requests) < len(trace) and (entry := trace[len(requests)])["step"] == step.label:
            attempt, turn, tokens = entry["attempt"], entry.get("turn", 0), entry["tokens"]
            requests.append(step.request(item, attempt, run_seed, turn))
            counts = (tokens["prompt"], tokens["completion"], tokens["cached"])
            answer = Response(requests[-1].id, entry["text"], entry["finish"], *counts, entry["error"])
            step.take(item, answer, attempt, turn)
            step.restore(item, output)
        item.state = {}
    return requests
