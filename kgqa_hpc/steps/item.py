"""The item: an anchor with the results of all its steps, from `begin` to `end`; and the outcome of a step on it: Done,
Ask, Retry or Reject.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import isfinite
from string import ascii_uppercase
from typing import Any, Literal, Self

import orjson

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, AnchorKind
from kgqa_hpc.columns import Column, misfit
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import did_you_mean

Status = Literal["open", "accepted", "rejected", "invalid", "failed"]
PAIR = ("question", "answer")


@dataclass(slots=True)
class Item:
    """An anchor on its way through a chain of steps.

    `status` is `open` until the last step is done, then one of: accepted; rejected (by a judge or a filter); invalid
    (no parseable answer after all attempts); failed (no answer at all: engine errors, prompt too long). `reason`
    names the step and the cause, e.g. "generate: truncated". `decided`: accepted or rejected by verdicts alone, so
    that a later change of the decision rule may change the outcome.

    `output` holds the fields of its record (question, answer, …); an item that yields several records has them in
    `records`, each with its fields and a `reason` that is None unless that record was rejected. `verdicts` holds the
    verdict of each judging step, `features` the measured values, `annotations` the other columns of steps. `state`
    belongs to a step of several turns while it is asking. `trace` has one entry per request: step, attempt, prompt,
    engine, raw text, tokens.
    """

    anchor: Anchor
    status: Status = "open"
    reason: str | None = None
    output: dict[str, Any] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, Any] = field(default_factory=dict)
    records: list[dict[str, Any]] | None = None
    decided: bool = False
    state: dict[str, Any] = field(default_factory=dict)
    trace: list[dict[str, Any]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.anchor.id

    def to_record(self) -> dict[str, Any]:
        """The item as journals and results store it, without the anchor, which the shard stores."""
        record = {"id": self.anchor.id} | {name: getattr(self, name) for name in _STORED}
        if not self.state:
            del record["state"]
        return record

    @classmethod
    def from_record(cls, anchor: Anchor, record: dict[str, Any]) -> Self:
        """Restore an item from the record of an earlier pass.

        Raises ValueError for the record of another anchor.
        """
        if record["id"] != anchor.id:
            raise ValueError(f"record {record['id']} is not of anchor {anchor.id}")
        values = {"state": {}} | record
        return cls(anchor, *(values[name] for name in _STORED))

    def results(self) -> dict[str, Any]:
        """Copies of the results that a step may change, by name."""
        copies: dict[str, Any] = {name: dict(getattr(self, name)) for name in _RESULTS}
        return copies | {"records": None if self.records is None else [dict(entry) for entry in self.records]}

    def take_back(self, results: dict[str, Any]) -> None:
        """Undo what a failed step did: set the results that the item had before."""
        for name, value in results.items():
            setattr(self, name, value)


_STORED = [member.name for member in fields(Item) if member.name != "anchor"]  # in their stored order
_RESULTS = ("output", "verdicts", "features", "annotations", "state")


@dataclass(frozen=True, slots=True, init=False)
class Done:
    """The step succeeded; the item goes on to the next step. `Done(years=[1968])` also fills the column `years`."""

    columns: Mapping[str, Any]

    def __init__(self, **columns: Any) -> None:
        object.__setattr__(self, "columns", columns)


@dataclass(frozen=True, slots=True)
class Ask:
    """The step needs another turn on the same item; it keeps its intermediate results in item.state."""


@dataclass(frozen=True, slots=True)
class Retry:
    """No usable answer. `lost_as` is the item's status if this was the last attempt."""

    reason: str
    lost_as: Literal["invalid", "failed"]


@dataclass(frozen=True, slots=True)
class Reject:
    """The item is rejected; `reason` begins with the step's label. `decided`: the verdicts alone caused it."""

    reason: str
    decided: bool = False


Outcome = Done | Ask | Retry | Reject


def begin(kind: AnchorKind, anchor: Anchor) -> Item:
    """A new item with the anchor kind's initial fields; its status is failed if the kind raises an exception."""
    try:
        item = Item(anchor, output=kind.start(anchor))
        problem = next(_unwritable(item, {}), None) if item.output != {} else None
    except Exception as failure:  # noqa: BLE001  it may be the code of an extension
        problem = f"{type(failure).__name__}: {failure}"[:200]
    return item if problem is None else Item(anchor, "failed", f"{anchor.kind}: {problem}")


def end(item: Item, outcome: Outcome, kind: AnchorKind, step: str) -> None:
    """Close the item: set `status`, `reason` and `decided`. The reason of a lost item begins with the label `step`.

    A completed item whose question or answer is missing or blank is lost. So is an item whose records, made by the
    kind, are invalid; its reason begins with the kind's name.
    """
    item.state = {}
    records = [item.output] if item.records is None else item.records
    if isinstance(outcome, Done) and not all(map(_is_whole, records)):
        outcome = Retry("ended without question and answer", lost_as="failed")
        item.records = None  # so that merge makes no records of this item
    elif not isinstance(outcome, Retry) and (problem := record_problem(item, kind)):
        outcome, step = Retry(problem, lost_as="failed"), item.anchor.kind
        item.output, item.records = {}, None
    if isinstance(outcome, Done):
        item.status, item.reason = "accepted", None
    elif isinstance(outcome, Reject):
        reason = outcome.reason or f"{step}: no reason given"
        item.status, item.reason, item.decided = "rejected", reason, outcome.decided
    elif isinstance(outcome, Retry):
        item.status, item.reason, item.decided = outcome.lost_as, f"{step}: {outcome.reason}", False


def _is_whole(fields: Mapping[str, Any]) -> bool:
    """Whether a record has question and answer, neither of them blank unless it was rejected."""
    return all(name in fields and (fields[name].strip() or fields.get("reason")) for name in PAIR)


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
        initial = kind.start(sample)
        if problem := next(_unwritable(Item(sample, output=initial), {}), None):
            raise ExtensionError(f"{KINDS.entry(kind.name)}: start(): {problem}", "mend its `start`")
        fields = kind.record(sample, {"question": "?", "answer": "!", **initial})
    except ExtensionError:
        raise
    except Exception:  # noqa: BLE001  it may read what steps add; every item is looked at again
        return
    if problem := _problem(kind, fields):
        raise ExtensionError(f"{KINDS.entry(kind.name)}: {problem}", "mend its `columns` or its `record`")


def require_outcome(outcome: Any, item: Item, entry: str) -> Outcome:
    """The outcome that a step returned; `entry`: the step's name in messages.

    Raises ExtensionError for a return value that is no outcome.
    """
    cure = ""
    if not isinstance(outcome, Outcome):
        cure = "return Done(), Ask(), Retry(reason, lost_as) or Reject(reason)"
    elif isinstance(outcome, Retry) and outcome.lost_as not in ("invalid", "failed"):
        cure = 'lost_as is "invalid" or "failed"'
    if cure:
        raise ExtensionError(f"{entry} returned {outcome!r:.80} on item {item.id}", cure)
    if isinstance(outcome, Retry | Reject) and not isinstance(outcome.reason, str):
        reason = f"{entry} gave the reason {outcome.reason!r:.80} on item {item.id}"
        raise ExtensionError(reason, "give a text")
    return outcome


def apply_columns(
    outcome: Outcome, item: Item, columns: Sequence[Column], before: Collection[str]
) -> str | None:
    """Store the columns of an outcome in the item; a sentence about the first value that does not fit, else None.

    `before`: names of the item's annotations before the step.
    """
    added = outcome.columns if isinstance(outcome, Done) else {}
    if problem := next(_unwritable(item, added), None):
        return problem
    if isinstance(outcome, Done):
        item.annotations |= added
        names = [column.name for column in columns]
        for name in (item.annotations.keys() - before) | added.keys():
            if name not in names:
                return f"{name} is no column of it{did_you_mean(name, names)}"
        for values in (item.annotations, item.output, *(item.records or ())):
            if problem := misfit(columns, values):
                return problem
    for column in columns:
        if column.filterable and column.name in item.annotations:
            item.features[column.name] = item.annotations.pop(column.name)
    return None


def _unwritable(item: Item, columns: Any) -> Iterator[str]:
    """A sentence for each part of the item that cannot be written as JSON, or that merge cannot read."""
    names = ("output", "annotations", "features", "verdicts", "state")
    mappings = {name: getattr(item, name) for name in names}
    for name, value in {**mappings, "records": item.records, "columns": columns}.items():
        try:
            orjson.dumps(value)
        except TypeError as failure:
            yield f"{name} cannot be written: {failure}"
    yield from (f"{name} is no mapping" for name, value in mappings.items() if not isinstance(value, dict))
    records = [] if item.records is None else item.records
    if not (isinstance(records, list) and all(isinstance(record, dict) for record in records)):
        yield "records is no list of mappings"
    if not all(isinstance(record.get("reason", ""), str | None) for record in records):
        yield "the reason of a record is no text"
    if not all(isinstance(verdict, dict) for verdict in item.verdicts.values()):
        yield "a verdict is no mapping"
    for name, value in item.features.items():
        if isinstance(value, float) and not isfinite(value):
            yield f"feature {name} is no finite number"
    for record in (item.output, *records):
        yield from (f"{name} is no text" for name in PAIR if not isinstance(record.get(name, ""), str))


def choices_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Options by letter: the member `choices`, or the list `options`; empty for a record without options."""
    choices = record.get("choices")
    if isinstance(choices, Mapping):
        return dict(choices)
    return dict(zip(ascii_uppercase, record.get("options") or (), strict=False))


def right_letter(record: Mapping[str, Any]) -> str:
    """The letter of the correct option of a multiple-choice record."""
    if isinstance(record.get("choices"), Mapping):
        return str(record["answer_letter"])
    return ascii_uppercase[record["correct_option"]]


def with_choices(question: str, choices: Mapping[str, str], between: str = "\n") -> str:
    """The question followed by its options, `A. …`; the question alone without options."""
    return between.join([question, *(f"{letter}. {text}" for letter, text in choices.items())])
