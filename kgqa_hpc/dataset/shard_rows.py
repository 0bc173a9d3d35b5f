"""A shard as rows for the dataset: what merge does once per shard, on as many cores as there are."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import decision_of
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.read import FinishedWork
from kgqa_hpc.dataset.record import RecordMaker, item_v2, lost_record, pair_of, record_maker
from kgqa_hpc.dataset.requests import RequestCounts
from kgqa_hpc.dataset.sketches import SketchMaker
from kgqa_hpc.dataset.spool import SECTIONS, STATUSES, SpoolWriter, sampled_digest
from kgqa_hpc.errors import AccountingError
from kgqa_hpc.steps.decision import Decision


class _Rooms(threading.local):
    """Of each thread that writes spools."""

    def __init__(self) -> None:
        self.rooms = [BytesIO() for _ in SECTIONS]


class ShardReader:
    """Makes the spool and the sketch of any shard of a run; `durable`: for other machines.

    Raises InputError for near duplicates without rensa.
    """

    def __init__(self, work: FinishedWork, *, durable: bool = False) -> None:
        self._work = work
        self._durable = durable
        self._maker = record_maker(work.config, work.run.manifest().digest)
        self._decision = decision_of(work.config)
        self._sketches = SketchMaker(work.config)
        self._own = _Rooms()

    def write(self, name: str, folder: Path) -> None:
        """Write folder/`name`.spool. Raises CorruptFile (the result is then in quarantine), AccountingError."""
        rows = _Rows(self._maker, self._decision, SpoolWriter(self._own.rooms))
        number = 1
        try:
            for stored_anchor, stored_item in self._work.pairs(self._work.manifest.entry(name)):
                anchor = Anchor.from_dict(stored_anchor)
                if stored_item is None:
                    rows.wait(anchor)
                else:
                    rows.add(anchor, item_v2(stored_item))
                number += 1
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
            raise AccountingError(
                f"{name}: item {number} of {self._work.manifest.entry(name).items} is none that a worker writes: "
                f"{type(problem).__name__}: {problem}",
                f"move its result out of {self._work.run.results(self._work.pass_name)} and `kgqa run` redoes it; "
                "please report it when nobody wrote there but kgqa",
            ) from problem
        path = folder / f"{name}.spool"  # last, for where it is the sketch is
        self._sketches.write(path, rows.accepted, durable=self._durable)
        rows.write(path, durable=self._durable)


_Known = tuple[str, str, str | None, tuple[str, str] | None, bool]  # group, status, reason, pair, single


class _Rows:
    """Collects the rows of one shard; `accepted` are number and question of those that the judges accepted."""

    def __init__(self, maker: RecordMaker, rule: Decision, spool: SpoolWriter) -> None:
        self._maker = maker
        self._rule = rule
        self._spool = spool
        self._columns = Columns(maker.columns)
        self._requests = RequestCounts()
        self._ids: list[str] = []
        self._groups: list[str] = []
        self._number = 0
        self.accepted: list[tuple[int, str]] = []

    def add(self, anchor: Any, item: dict[str, Any]) -> None:
        """All rows of one item: one record, one lost line, or its list of records."""
        self._ids.append(anchor.id)
        self._groups.append(anchor.group)
        self._requests.add(item)
        status, reason = self._outcome(item)
        if item["records"] is not None:
            self._add_list(anchor, item, status, reason)
            return
        pair = pair_of(item["output"])
        if pair is None and status == "accepted":
            raise AccountingError(f"{anchor.id} is accepted and has no question", "please report it")
        record = self._maker.record(anchor, item, item["output"]) if pair else None
        lost = lost_record(anchor, item) if status in ("invalid", "failed") or not pair else None
        self._row((anchor.group, status, reason, pair, True), record, lost)

    def wait(self, anchor: Anchor) -> None:
        """An item that has not ended."""
        self._ids.append(anchor.id)
        self._groups.append(anchor.group)
        self._spool.head.waiting.append(anchor.group)

    def _outcome(self, item: Mapping[str, Any]) -> tuple[str, str | None]:
        if item["status"] not in STATUSES:
            raise AccountingError(
                f"an item ended with the status {item['status']!r}, which is no outcome", "please report it"
            )
        if not item["decided"]:
            return item["status"], item["reason"]
        reason = self._rule.reason(item["verdicts"])
        return ("accepted", None) if reason is None else ("rejected", reason)

    def _add_list(self, anchor: Any, item: dict[str, Any], status: str, reason: str | None) -> None:
        self._spool.head.lists.append((anchor.group, status, reason))
        if status in ("invalid", "failed"):
            self._row((anchor.group, status, reason, None, False), None, lost_record(anchor, item))
        for number, entry in enumerate(item["records"], start=1):
            pair = pair_of(entry)
            if pair is None:
                raise AccountingError(f"{anchor.id}: record {number} has no question", "please report it")
            record = self._maker.record(anchor, item, entry, number)
            why = entry.get("reason") or (reason if status == "rejected" else None)
            fate = "rejected" if why else "accepted"
            self._row((anchor.group, fate, why, pair, False), record, None)

    def _row(self, known: _Known, record: dict[str, Any] | None, lost: dict[str, Any] | None) -> None:
        _, status, reason, pair, _ = known
        form, line = -1, b""
        accepted = status == "accepted"
        if record is not None:
            record["accepted"], record["reason"] = accepted, None if accepted else reason
            form, line = self._columns.add(record), orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        if accepted and pair:
            self.accepted.append((self._number, pair[0]))
        self._number += 1
        self._spool.add(*known, form, line, orjson.dumps(lost) + b"\n" if lost else b"")

    def write(self, path: Path, *, durable: bool) -> None:
        """All rows as a spool; which lines have all columns is known now that all were seen."""
        head, columns = self._spool.head, self._columns
        head.sampled = sampled_digest(self._ids, self._groups)
        head.requests, head.columns = self._requests.rows(), columns.state()
        self._spool.write(path, columns.fits, durable=durable)
