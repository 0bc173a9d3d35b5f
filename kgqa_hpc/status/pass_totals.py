"""Totals of a pass so far: sums over the headers of its results, and counts from the journals of its open shards; the
money spent on them.

A header is the first KiB of the file, so ten thousand results take about a second. Of a journal only the lines appended
since the last refresh are read. Totals are saved in status.json, and the next process continues them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kgqa_hpc.engines.engine import Price
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.intervals import wilson
from kgqa_hpc.store import atomic, journal, queue, shards
from kgqa_hpc.store.run_folder import RunFolder

ENDED = ("accepted", "rejected", "invalid", "failed")
FEW = 1000  # the interval of the acceptance is shown below this number of judged items
_SUMS = ("counts", "reasons", "tokens", "records")
Sizes = dict[str, int]  # sizes in bytes of a shard's journals, by file name


@dataclass(slots=True)
class OpenShard:
    """Counts from the journals of a shard without a result.

    Of a single journal, reading continues at `offset`. Several journals, of successive or simultaneous workers, are
    read whole, because the same item may be in two of them.
    """

    sizes: Sizes = field(default_factory=dict)
    offset: int = 0
    answers: int = 0  # number of journal records, of finished and unfinished items
    tokens: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)  # number of ended items by outcome

    def read(self, folder: Path, sizes: Sizes, header: Mapping[str, str]) -> OpenShard:
        """The counts with the new lines of the journals of these sizes. Raises StoreError, OSError."""
        grown = len(sizes) == 1 and self.sizes.keys() == sizes.keys() and self.offset <= min(sizes.values())
        shard = replace(self, sizes=sizes, tokens=Counter(self.tokens)) if grown else OpenShard(sizes)
        ended: dict[str, str] = {}
        for file in sorted(sizes):
            records, end = journal.read_on(folder / file, shard.offset, header)
            shard.answers += len(records)
            for record in records:
                with suppress(KeyError, IndexError, TypeError, AttributeError):
                    tokens = record["trace"][-1]["tokens"]  # of the answer for which the record was written
                    shard.tokens.update({kind: shards.count(number) for kind, number in tokens.items()})
            finished = (record for record in records if record.get("status") in ENDED)
            ended |= {str(record["id"]): record["status"] for record in finished}
        shard.offset = end if len(sizes) == 1 else 0
        shard.ended = shard.ended + Counter(ended.values())
        return shard


@dataclass
class PassTotals:
    """Sums of one pass over the results in `by_shard`, and the `journals` of shards without a result.

    `by_shard` has the numbers of items of each shard that this pass rejected, found invalid or failed; the tuples of
    the last pass, where all items have ended, stay empty.
    """

    pass_name: str
    last: bool = True
    items: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    # Records of items that yield several, before merge's filters.
    records: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    repaired: int = 0
    by_shard: dict[str, tuple[int, ...]] = field(default_factory=dict)
    journals: dict[str, OpenShard] = field(default_factory=dict)

    @property
    def all_tokens(self) -> Counter[str]:
        """Tokens of this pass's answers, including those in journals."""
        return sum((shard.tokens for shard in self.journals.values()), self.tokens.copy())

    @property
    def through(self) -> int:
        """Number of items that have passed, including those in journals."""
        return self.items + sum(shard.ended.total() for shard in self.journals.values())

    def refresh(self, run: RunFolder) -> None:
        """Add the results and journal lines that are new; start again if a counted result has disappeared.

        A file that cannot be read now is read by the next refresh. Raises StoreError.
        """
        origin, folder = run.origin(self.pass_name), run.results(self.pass_name)
        # Journals are listed before results: a journal that is removed meanwhile has become a result.
        journals = _list_journals(folder)
        done = queue.done_shards(run, self.pass_name)
        if self.by_shard.keys() - done:
            self.__dict__.update(PassTotals(self.pass_name, self.last, journals=self.journals).__dict__)
        for shard in sorted(done - self.by_shard.keys()):
            # The result is corrupt, or already in quarantine, or the error is transient.
            with suppress(StoreError):
                self._add(shard, shards.read_summary(run.result(self.pass_name, shard), origin))
        self.journals = {
            shard: self.journals.get(shard, OpenShard()) for shard in journals if shard not in self.by_shard
        }
        for shard, counts in self.journals.items():
            if counts.sizes != journals[shard]:
                header = origin.header(shard, "")
                del header["shard_sha256"]
                # The journal was removed because the shard has a result, or the error is transient.
                with suppress(StoreError, OSError):
                    self.journals[shard] = counts.read(folder, journals[shard], header)

    def _add(self, shard: str, header: dict[str, Any]) -> None:
        """Add the counts of a result's header, whose values are not trusted."""
        self.items += shards.count(header.get("rows"))
        self.requests += shards.count(header.get("requests"))
        self.repaired += shards.count(header.get("repaired"))
        for key in _SUMS:
            sums, numbers = getattr(self, key), header.get(key)
            for name, number in numbers.items() if isinstance(numbers, dict) else ():
                # Counter.update takes ten times as long for so few entries.
                sums[str(name)] += shards.count(number)
        outcomes: Any = header.get("counts")
        names = ENDED[1:] if isinstance(outcomes, dict) and not self.last else ()
        self.by_shard[shard] = tuple(shards.count(outcomes.get(name)) for name in names)


def _list_journals(folder: Path) -> dict[str, Sizes]:
    """The journals in a pass's folder: by shard their names and sizes."""
    sizes: dict[str, Sizes] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".journal") and entry.is_file(follow_symlinks=False):
                    sizes.setdefault(entry.name.split(".")[0], {})[entry.name] = entry.stat().st_size
    except OSError as problem:
        if problem.errno not in atomic.ABSENT_NOW:
            raise
    return sizes


def verdicts(passes: Iterable[PassTotals], items: int) -> dict[str, int]:
    """Numbers of items by outcome, `waiting` for unfinished ones: each of the `items` counts once over all passes.

    A later pass's result repeats the items that ended before it; its journals do not.
    """
    totals: Counter[str] = Counter()
    later: set[str] = set()
    for pass_totals in reversed(list(passes)):
        outcomes = ENDED if pass_totals.last else ENDED[1:]  # accepted items go on to the next pass
        if pass_totals.last:
            totals.update({name: pass_totals.counts[name] for name in ENDED})
        for shard in pass_totals.by_shard.keys() - later:
            totals.update(dict(zip(ENDED[1:], pass_totals.by_shard[shard], strict=False)))
        later |= pass_totals.by_shard.keys()
        for shard in pass_totals.journals.keys() - later:
            totals.update({name: pass_totals.journals[shard].ended[name] for name in outcomes})
    ended = {name: totals[name] for name in ENDED}
    return {**ended, "waiting": max(items - sum(ended.values()), 0)}


def acceptance(counts: Mapping[str, int]) -> dict[str, Any] | None:
    """Accepted of accepted and rejected: {"share", "low", "high", "judged"}; low and high are Wilson's 95 %
    interval. None before any verdict.
    """
    accepted = counts.get("accepted", 0)
    judged = accepted + counts.get("rejected", 0)
    share = wilson(accepted, judged)
    return {"share": share.value, "low": share.low, "high": share.high, "judged": judged} if judged else None


def acceptance_words(status: Mapping[str, Any]) -> str:
    """'accepted 447 (44.7 %, 42 to 48 %)', with the interval while few are judged; empty before any verdict.

    Where items yield lists, their records are counted, of the shards that are done. Between passes no share is given:
    rejected items have ended and others wait for the next judge, so it would be too low.
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


def money(run: RunFolder, totals: Sequence[PassTotals]) -> dict[str, Any] | None:
    """Money as {"spent", "budget", "passes": {pass: spent}}; None if no engine of the run has a price.

    Prices and budget are read from the run's config.yaml without a check of it, which would take too long for `status`.
    A mistake in an edited file must not end a worker: the next `kgqa run` reports it.
    """
    config: dict[str, Any] = {}
    prices: dict[str, Price] = {}
    with suppress(AttributeError, InputError, KeyError, StoreError, TypeError, ValidationError):
        config = run.config()
        for entry in config.get("passes") or ():
            engine = entry.get("engine") or config.get("engine") or {}
            if engine.get("price") is not None:
                prices[str(entry["name"])] = Price.model_validate(engine["price"])
    if not prices:
        return None
    spent = {
        entry.pass_name: round(prices[entry.pass_name].of(entry.all_tokens), 6)
        for entry in totals
        if entry.pass_name in prices
    }
    budget = ((config.get("runtime") or {}).get("budget") or {}).get("money")
    return {"spent": round(sum(spent.values()), 6), "budget": budget, "passes": spent}
