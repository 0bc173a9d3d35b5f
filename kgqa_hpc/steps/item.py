"""The item: an anchor with the results of all its steps."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from kgqa_hpc.anchors.anchor import Anchor

Status = Literal["open", "accepted", "rejected", "invalid", "failed"]


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
    def from_record(cls, anchor: Anchor, record: dict[str, Any]) -> Item:
        """The inverse of `to_record`, for the next pass. Raises ValueError for the record of another anchor."""
        if record["id"] != anchor.id:
            raise ValueError(f"record {record['id']} is not of anchor {anchor.id}")
        values = {"state": {}} | record
        return cls(anchor, *(values[name] for name in _STORED))


_STORED = [member.name for member in fields(Item) if member.name != "anchor"]  # in their order in the file
