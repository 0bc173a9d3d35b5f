"""Accounting of items: sampled = accepted + rejected + invalid + failed, per group and in all.

Sampled items are counted from anchors.h5, outcomes from the results: two independent sources. A merge of an
unfinished run has a fifth term, `waiting`. Where an item yields several records, a second identity holds:
records = accepted + rejected.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

import orjson

from kgqa_hpc.errors import AccountingError

T = TypeVar("T")
OUTCOMES = ("accepted", "rejected", "invalid", "failed")
RECORD_REJECTED = "record rejected"  # outcome of a single record of an item with several
LENGTH = "length"  # reason of pairs that the length filter rejected
NO_REASON = "no reason given"
TOKENS = ("prompt", "completion", "cached")
_USELESS = {"stop": "unparseable", "length": "truncated"}
_COUNTS = ("requests", "usable", "repaired", "unparseable", "truncated", "errors")


@dataclass(slots=True)
class OutcomeCounts:
    """Number of items of one group (or of all groups) by outcome and reason."""

    unit: ClassVar[str] = "sampled"
    outcomes: ClassVar[tuple[str, ...]] = OUTCOMES[1:]  # the outcomes that have reasons

    sampled: int = 0
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    invalid: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    pairs: int = 0  # items with a question and an answer, whatever their outcome
    outliers: int = 0  # pairs that the length filter rejected

    def add(self, status: str, reason: str | None, number: int = 1) -> None:
        """Count finished items."""
        if status == "accepted":
            self.accepted += number
        else:
            getattr(self, status)[reason or NO_REASON] += number

    @property
    def holds(self) -> bool:
        """Whether the outcomes and the waiting items sum to the sampled items."""
        reasons = sum(getattr(self, outcome).total() for outcome in self.outcomes)
        return self.sampled == self.accepted + reasons + self.waiting

    @property
    def generated(self) -> int:
        """Number of pairs left after the length filter ("generated" in Table 1 of the paper)."""
        return self.pairs - self.outliers

    def __str__(self) -> str:
        """The identity with its numbers, e.g. `10 sampled = 4 accepted + 5 rejected + 1 invalid + 0 failed`."""
        terms = [f"{self.accepted:,} accepted"]
        terms += [f"{getattr(self, name).total():,} {name}" for name in self.outcomes]
        terms += [f"{self.waiting:,} waiting"] if self.waiting else []
        return f"{self.sampled:,} {self.unit} {'=' if self.holds else '!='} {' + '.join(terms)}"

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def to_dict(self) -> dict[str, Any]:
        """The entry of accounting.json, reasons in alphabetical order."""
        reasons = {outcome: dict(sorted(getattr(self, outcome).items())) for outcome in self.outcomes}
        items = {"waiting": self.waiting, "generated": self.generated} if self.unit == "sampled" else {}
        return {self.unit: self.sampled, "accepted": self.accepted, **reasons, **items}


class RecordCounts(OutcomeCounts):
    """Number of records of one group (`sampled`) by outcome, where an item yields several records."""

    unit = "records"
    outcomes = ("rejected",)


@dataclass(slots=True)
class Accounting:
    """The counts of a merge, with the settings of its filters and the requests behind them.

    `missing_shards` of the run's `shards` were unfinished at the time of the merge; their finished items are counted,
    the others are `waiting`. `records` is empty unless an item yields a list of records. `filters` holds the settings
    of each filter and the number it rejected, `json_text` the fields that are JSON text (columns.py).
    """

    groups: dict[str, OutcomeCounts] = field(default_factory=dict)
    records: dict[str, RecordCounts] = field(default_factory=dict)
    shards: int = 0
    missing_shards: int = 0
    lengths: dict[str, Any] = field(default_factory=dict)
    filters: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, Any] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    json_text: list[list[str]] = field(default_factory=list)

    @property
    def partial(self) -> bool:
        """Whether shards are missing, so that items may be waiting."""
        return self.missing_shards > 0

    def group(self, name: str) -> OutcomeCounts:
        """The counts of a group; a new group is added with zeros."""
        return self.groups.setdefault(name, OutcomeCounts())

    @property
    def total(self) -> OutcomeCounts:
        """The sum of the counts over all groups."""
        return sum(self.groups.values(), OutcomeCounts())

    @property
    def record_total(self) -> RecordCounts:
        """The sum of the counts of records over all groups; if every item yields one record, that of items."""
        if self.records:
            return sum(self.records.values(), RecordCounts())
        total = self.total
        return RecordCounts(total.accepted + total.rejected.total(), total.accepted, total.rejected)

    def reasons(self) -> list[tuple[str, str, int]]:
        """(outcome, reason, number) of all items that were not accepted, then of the rejected records."""
        total, records = self.total, self.record_total.rejected if self.records else {}
        items = [(name, *pair) for name in OUTCOMES[1:] for pair in sorted(getattr(total, name).items())]
        return [*items, *((RECORD_REJECTED, *pair) for pair in sorted(records.items()))]

    def __str__(self) -> str:
        """Text of the accounting for a terminal: the identities, then a line for each reason."""
        total, splits = self.total, self.splits
        lines, of_records = [str(total)], []
        for outcome, reason, number in self.reasons():
            text = f"{number:>9,}  {reason}"
            if outcome == RECORD_REJECTED:
                of_records.append(f"  rejected  {text}")
            else:
                lines.append(f"  {outcome:<9} {text}")
        if self.records:
            lines += [str(self.record_total), *of_records]
        if self.partial:
            lines.insert(
                0,
                f"PARTIAL: {self.missing_shards:,} of {self.shards:,} shards are not done yet; what has "
                f"ended in them is in, {total.waiting:,} items are not",
            )
        parts = {name: counts["records"] for name, counts in splits.get("parts", {}).items()}
        lines += [f"  {name:<9} {number:>9,}  records" for name, number in parts.items()]
        empty = [name for name, number in parts.items() if not number]
        if empty and splits["groups"]:
            lines.append(
                f"  {', '.join(empty)}: empty, for records that share {splits['by']} stay together, and the largest of "
                f"{splits['groups']:,} such groups has {splits['largest_group']:,}; divide by another column "
                "(dataset.split.by)"
            )
        return "\n".join(lines)

    def check(self) -> None:
        """Raise AccountingError, naming the numbers, unless both identities hold for every group."""
        wrong = [
            f"{name}: {counts}"
            for name, counts in [*in_order(self.groups), *in_order(self.records)]
            if not counts.holds or (counts.waiting and not self.partial)
        ]
        if wrong:
            raise AccountingError(
                "the counts do not add up, no dataset was written\n       " + "\n       ".join(wrong),
                "an item was lost or counted twice; please report it with the output of kgqa status",
            )

    def to_dict(self) -> dict[str, Any]:
        """The content of accounting.json."""
        document = {
            **self.total.to_dict(),
            "partial": self.partial,
            "shards": self.shards,
            "missing_shards": self.missing_shards,
            "groups": {name: counts.to_dict() for name, counts in in_order(self.groups)},
            "lengths": self.lengths,
            "filters": self.filters,
            "splits": self.splits,
            "requests": self.requests,
        }
        if self.json_text:
            document["json_text"] = self.json_text
        if self.records:
            groups = {name: counts.to_dict() for name, counts in in_order(self.records)}
            document["records"] = {**self.record_total.to_dict(), "groups": groups}
        return document


class RequestCounts:
    """Counts of requests per step, prompt and engine, from the traces of all items.

    A request without a usable answer counts as `errors` (the engine gave no answer), `truncated` (it reached the token
    limit) or `unparseable`.
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, Counter[str]] = {}

    def add(self, item: dict[str, Any]) -> None:
        """Count all requests of an item's record."""
        trace = item["trace"]
        last = {entry["step"]: entry for entry in trace}
        if item["status"] in ("invalid", "failed") and trace:
            del last[trace[-1]["step"]]  # the item was lost at this step: it got no usable answer
        for entry in trace:
            counts, usable = self._of(entry), last.get(entry["step"]) is entry
            counts["requests"] += 1
            counts["usable" if usable else _USELESS.get(entry["finish"], "errors")] += 1
            counts["repaired"] += usable and bool(entry["repaired"])
            for kind in TOKENS:
                counts[kind] += entry["tokens"][kind]

    def take(self, rows: list[dict[str, Any]]) -> None:
        """Add the counts in `rows`, as another object's `rows()` returns them."""
        for row in rows:
            self._of(row).update({name: row[name] for name in _COUNTS}, **row["tokens"])

    def _of(self, entry: dict[str, Any]) -> Counter[str]:
        """The counts and tokens of the entry's step, prompt and engine."""
        prompt, engine = entry["prompt"], entry["engine"]
        key = orjson.dumps([entry["step"], prompt, engine])
        if key not in self._counts:
            # Some engines do not know their version or the digest of their model.
            texts = entry["step"], *prompt.values(), *engine.values()
            if not all(isinstance(text, str | None) for text in texts):
                raise TypeError(f"step, prompt and engine of a request are texts, not {key.decode()}")
            self._counts[key] = Counter()
        return self._counts[key]

    def rows(self) -> list[dict[str, Any]]:
        """One row per step, prompt and engine, in an order that depends on their names alone."""
        rows = []
        for key, counts in sorted(self._counts.items(), key=lambda row: row[0].replace(b"null", b'""')):
            row = dict(zip(("step", "prompt", "engine"), orjson.loads(key), strict=True))
            tokens = {kind: counts[kind] for kind in TOKENS}
            rows.append({**row, **{name: counts[name] for name in _COUNTS}, "tokens": tokens})
        return rows


def in_order(groups: Mapping[str, T]) -> list[tuple[str, T]]:
    """Groups sorted by name; runs of digits in names compare as numbers (shape 2 before shape 11)."""

    def key(name: str) -> list[tuple[int, int, str]]:
        parts = re.findall(r"[0-9]+|[^0-9]+", name)
        return [(0, int(part[:30]), part) if part[0] in "0123456789" else (1, 0, part) for part in parts]

    return sorted(groups.items(), key=lambda pair: key(pair[0]))
