"""Outcomes of a step on an item (Done, Ask, Retry, Reject), and their checks against the declared columns."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import orjson

from kgqa_hpc.columns import Column, misfit
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.steps.item import Item

PAIR = ("question", "answer")
_MAPPINGS = ("output", "annotations", "features", "verdicts", "state")


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


def checked(
    outcome: Any, item: Item, columns: Sequence[Column], before: AbstractSet[str], entry: str
) -> Outcome:
    """Check an outcome and store its columns in the item; a value that does not fit its column fails the item.

    `before`: names of the item's annotations before the step; `entry`: the step's name in messages. Raises
    ExtensionError for any other return value than an outcome.
    """
    if not isinstance(outcome, Done | Ask | Retry | Reject):
        raise ExtensionError(
            f"{entry} returned {outcome!r:.80} on item {item.id}",
            "return Done(), Ask(), Retry(reason, lost_as) or Reject(reason)",
        )
    if isinstance(outcome, Retry | Reject) and not isinstance(outcome.reason, str):
        raise ExtensionError(
            f"{entry} gave the reason {outcome.reason!r:.80} on item {item.id}", "give a text"
        )
    if isinstance(outcome, Retry) and outcome.lost_as not in ("invalid", "failed"):
        raise ExtensionError(
            f"{entry} returned {outcome!r:.80} on item {item.id}", 'lost_as is "invalid" or "failed"'
        )
    if problem := _unwritable(item, outcome):
        return Retry(problem, lost_as="failed")
    if isinstance(outcome, Done):
        item.annotations |= outcome.columns
        names = [column.name for column in columns]
        for name in (item.annotations.keys() - before) | outcome.columns.keys():
            if name not in names:
                return Retry(f"{name} is no column of it{did_you_mean(name, names)}", lost_as="failed")
        for values in (item.annotations, item.output, *(item.records or ())):
            if problem := misfit(columns, values):
                return Retry(problem, lost_as="failed")
    for column in columns:
        if column.filterable and column.name in item.annotations:
            item.features[column.name] = item.annotations.pop(column.name)
    return outcome


def _unwritable(item: Item, outcome: Outcome) -> str | None:
    """A reason if the step stored values that cannot be written, which are deleted from the item; None otherwise."""
    parts = {name: getattr(item, name) for name in (*_MAPPINGS, "records")}
    parts["columns"] = outcome.columns if isinstance(outcome, Done) else {}
    problem = _misshapen(parts)
    for name, value in parts.items():
        try:
            orjson.dumps(value)
        except TypeError as failure:
            problem = f"{name} cannot be written: {failure}"
    if problem:
        item.output, item.annotations, item.features, item.state, item.records = {}, {}, {}, {}, None
        item.verdicts = {}
    return problem


def _misshapen(parts: Mapping[str, Any]) -> str | None:
    """A sentence about the first part of an item with a form that merge cannot read; None if all parts are valid."""
    for name in _MAPPINGS:
        if not isinstance(parts[name], dict):
            return f"{name} is no mapping"
    records = [] if parts["records"] is None else parts["records"]
    if not (isinstance(records, list) and all(isinstance(fields, dict) for fields in records)):
        return "records is no list of mappings"
    if not all(isinstance(verdict, dict) for verdict in parts["verdicts"].values()):
        return "a verdict is no mapping"
    for name, value in parts["features"].items():
        if isinstance(value, float) and not isfinite(value):
            return f"feature {name} is no finite number"
    for fields in (parts["output"], *records):
        for name in PAIR:
            if not isinstance(fields.get(name, ""), str):
                return f"{name} is no text"
    return None


def finish(item: Item, outcome: Outcome, step: str | None = None) -> None:
    """Close the item: set `status` and `reason`. `step` is needed only if no request was ever answered."""
    item.state = {}
    if isinstance(outcome, Done):
        item.status, item.reason = "accepted", None
    elif isinstance(outcome, Reject):
        item.status, item.reason, item.decided = "rejected", outcome.reason, outcome.decided
    elif isinstance(outcome, Retry):
        name = step or (item.trace[-1]["step"] if item.trace else None)
        item.status, item.reason = outcome.lost_as, f"{name}: {outcome.reason}" if name else outcome.reason
        item.decided = False
