"""The record of an anchor kind, held against the columns that the kind declares."""

from __future__ import annotations

from collections.abc import Mapping

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.columns import misfit
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.outcomes import PAIR, Done, Outcome, Retry, finish


def begin(kind: AnchorKind, anchor: Anchor) -> Item:
    """The item of an anchor with the fields it begins with; failed where the kind cannot give them."""
    try:
        return Item(anchor, output=kind.start(anchor))
    except Exception as problem:  # noqa: BLE001  it may be the code of an extension
        return Item(anchor, "failed", f"{anchor.kind}: {type(problem).__name__}: {problem}"[:200])


def end(item: Item, outcome: Outcome, kind: AnchorKind, step: str | None = None) -> None:
    """Close the item by `finish`.

    An item that is done without question and answer fails under the step's name; where the kind cannot make its
    record, the item fails under the kind's.
    """
    if isinstance(outcome, Done) and item.records is None and not all(name in item.output for name in PAIR):
        outcome = Retry("ended without question and answer", lost_as="failed")
    problem = None if isinstance(outcome, Retry) else record_problem(item, kind)
    if problem is None:
        finish(item, outcome, step)
    else:
        finish(item, Retry(problem, lost_as="failed"), item.anchor.kind)
        item.output, item.records = {}, None  # merge makes no record of it either


def record_problem(item: Item, kind: AnchorKind) -> str | None:
    """Why the kind cannot make the item's records; None when it can, or none is asked for."""
    every = [item.output] if item.records is None else item.records
    for fields in every:
        if isinstance(fields.get("question"), str) and isinstance(fields.get("answer"), str):
            try:
                record = kind.record(item.anchor, fields)
            except Exception as problem:  # noqa: BLE001  it may be the code of an extension
                return f"{type(problem).__name__}: {problem}"[:200]
            if mistake := _problem(kind, record):
                return mistake
    return None


def _problem(kind: AnchorKind, fields: object) -> str | None:
    """What is wrong with the record of a kind: names that differ from its columns, a value that does not fit."""
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
    """Raises ExtensionError for a kind without a sample, and for one whose record of it does not fit its columns."""
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
