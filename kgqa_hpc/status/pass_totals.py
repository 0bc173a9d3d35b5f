"""Totals of a pass so far: sums over the headers of its results and over its journals.

A header is the first KiB of the file, so ten thousand results take about a second. Of a journal only the lines appended
since the last refresh are read. Saved totals (in status.json) are continued.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.errors import CorruptFile, MissingFile, StoreError
from kgqa_hpc.intervals import wilson
from kgqa_hpc.status.open_journals import ENDED, JournalCounts, list_journals
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.results import count, read_summary
from kgqa_hpc.store.run_folder import RunFolder

_SUMS = ("counts", "reasons", "tokens", "records")
FEW = 1000  # the interval of the acceptance is shown below this number of judged items


@dataclass
class PassTotals:
    """Sums of one pass. `counted` are the shards in them; `corrupt` those whose header cannot be read or belongs to
    another run. `by_shard` has the items of each counted shard that ended in this pass; in the last pass,
    where all have ended, it stays empty.
    """

    pass_name: str
    last: bool = True
    counted: set[str] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    items: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    records: Counter[str] = field(default_factory=Counter)  # of lists of items, before merge's filters
    requests: int = 0
    repaired: int = 0
    by_shard: dict[str, dict[str, int]] = field(default_factory=dict)
    journals: JournalCounts = field(default_factory=JournalCounts)

    def refresh(self, run: RunFolder) -> None:
        """Add the results that are new; start again if a counted result has disappeared. Raises StoreError."""
        origin = run.origin(self.pass_name)
        # Journals are read before results: a journal that is removed meanwhile has become a result.
        journals = list_journals(run.results(self.pass_name))
        done = done_shards(run, self.pass_name)
        if self.counted - done:
            fresh = PassTotals(self.pass_name, self.last, journals=self.journals)
            self.__dict__.update(fresh.__dict__)
        self.corrupt &= done
        for shard in sorted(done - self.counted):
            try:
                self._add(shard, read_summary(run.result(self.pass_name, shard), origin))
            except CorruptFile:
                self.corrupt.add(shard)
            except MissingFile:  # moved to quarantine in the meantime: no result any more
                self.corrupt.discard(shard)
            except StoreError:
                continue  # a passing error of the file system: the next refresh reads it
        open_ones = {shard: sizes for shard, sizes in journals.items() if shard not in self.counted}
        self.journals.refresh(run.results(self.pass_name), open_ones, origin)

    @property
    def all_tokens(self) -> Counter[str]:
        """Tokens of this pass's answers, including those in journals."""
        return self.tokens + self.journals.tokens

    def _add(self, shard: str, header: dict[str, Any]) -> None:
        self.counted.add(shard)
        self.corrupt.discard(shard)
        self.items += count(header.get("rows"))
        for key in _SUMS:
            sums, numbers = getattr(self, key), header.get(key)
            for name, number in numbers.items() if isinstance(numbers, dict) else ():
                sums[str(name)] += count(number)  # Counter.update is ten times as slow on so few
        self.requests += count(header.get("requests"))
        self.repaired += count(header.get("repaired"))
        if not self.last:
            counts = header.get("counts")
            ended = {name: count(counts.get(name)) for name in ENDED[1:]} if isinstance(counts, dict) else {}
            self.by_shard[shard] = ended

    def to_dict(self) -> dict[str, Any]:
        """The totals as plain JSON types; the counted shards are bits of a hexadecimal number."""
        bits = 0
        for shard in self.counted:
            bits |= 1 << int(shard.rpartition("-")[2])
        return {
            "counted": f"{bits:x}",
            "items": self.items,
            **{key: dict(getattr(self, key)) for key in _SUMS},
            "requests": self.requests,
            "repaired": self.repaired,
            "by_shard": self.by_shard,
            "journals": self.journals.to_dict(),
        }

    @classmethod
    def from_dict(cls, pass_name: str, last: bool, data: dict[str, Any], names: list[str]) -> PassTotals:
        """The inverse of `to_dict`; `names` are all shards in order. Raises ValueError, KeyError, TypeError
        or AttributeError for other data.
        """
        bits = int(data["counted"], 16)
        sums: dict[str, Any] = {key: _counter(data[key]) for key in _SUMS}
        return cls(
            pass_name,
            last,
            counted={name for position, name in enumerate(names) if bits >> position & 1},
            items=count(data["items"]),
            **sums,
            requests=count(data["requests"]),
            repaired=count(data["repaired"]),
            by_shard={shard: dict(_counter(ended)) for shard, ended in data["by_shard"].items()},
            journals=JournalCounts.from_dict(data["journals"]),
        )


def _counter(numbers: dict[str, Any]) -> Counter[str]:
    return Counter({str(name): count(number) for name, number in numbers.items()})


def verdicts(passes: Iterable[PassTotals], items: dict[str, int]) -> dict[str, int]:
    """Numbers of items by outcome, `waiting` for unfinished ones: each of `items` (by shard) counts once over
    all passes.

    A later pass's result repeats what ended before it; its journals do not.
    """
    totals: Counter[str] = Counter()
    later: set[str] = set()
    for pass_state in reversed(list(passes)):
        if pass_state.last:
            totals.update({name: pass_state.counts[name] for name in ENDED})
        for shard in pass_state.by_shard.keys() - later:
            totals.update(pass_state.by_shard[shard])
        later |= pass_state.counted
        for shard in pass_state.journals.shards - later:
            totals.update(pass_state.journals.counts(shard, pass_state.last))
    total = sum(items.values())
    ended = {name: totals[name] for name in ENDED}
    return {**ended, "waiting": max(total - sum(ended.values()), 0)}


def acceptance(verdicts: Mapping[str, int]) -> dict[str, Any] | None:
    """Accepted of accepted and rejected: {"share", "low", "high", "judged"}; low and high are Wilson's 95 %
    interval. None before any verdict.
    """
    accepted = verdicts.get("accepted", 0)
    judged = accepted + verdicts.get("rejected", 0)
    if not judged:
        return None
    share = wilson(accepted, judged)
    return {"share": share.value, "low": share.low, "high": share.high, "judged": judged}


def acceptance_words(status: Mapping[str, Any]) -> str:
    """'accepted 447 (44.7 %, 42 to 48 %)', with the interval while few are judged; empty before any verdict.

    Where items yield lists, their records are counted, of the shards that are done.
    Between passes rejected items have ended and others wait for the next judge: a share would be too low
    then.
    """
    share = acceptance(status["verdicts"])
    if share is None:
        return ""
    records = status["passes"][-1]["records"]
    if records:
        return f"accepted {records.get('accepted', 0):,} of {sum(records.values()):,} records"
    number = status["verdicts"]["accepted"]
    if not status["complete"] and len(status["passes"]) > 1:
        return f"accepted {number:,} so far"
    interval = f", {100 * share['low']:.0f} to {100 * share['high']:.0f} %" if share["judged"] < FEW else ""
    return f"accepted {number:,} ({100 * share['share']:.1f} %{interval})"
