"""Outcomes of a step on an item (Done, Ask, Retry, Reject), and their checks against the declared columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from kgqa_hpc.columns import Column, misfit
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.steps.item import Item


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
    """A reason if the step stored values that JSON cannot hold, after deleting them from the item; None otherwise."""
    parts = {
        name: getattr(item, name)
        for name in ("output", "annotations", "features", "verdicts", "state", "records")
    }
    values = {**parts, "columns": outcome.columns if isinstance(outcome, Done) else None}
    for name, value in values.items():
        try:
            orjson.dumps(value)
        except TypeError as problem:
            item.output, item.annotations, item.features, item.state, item.records = {}, {}, {}, {}, None
            item.verdicts = {}
            return f"{name} cannot be written: {problem}"
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
