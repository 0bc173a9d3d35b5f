"""A shard in work: its items, their journal, and the result file.

Each change by an answer is appended to the journal at once, also between two steps: the successor of a killed worker
repeats only the requests that were in flight. A journal record is the item's record with one more member, "at":
[step, attempt, turn], the position in the chain that it reached.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.errors import StoreError
from kgqa_hpc.steps.item import Item, begin
from kgqa_hpc.steps.step import Step
from kgqa_hpc.store import cleanup, journal
from kgqa_hpc.store.lease import Lease
from kgqa_hpc.store.shards import Row, Tally, write_rows
from kgqa_hpc.work.item_scheduler import Task
from kgqa_hpc.work.session import Session

AT = "at"
Record = dict[str, Any]


class OpenShard:
    """One leased shard. `tasks` are its unfinished items, each at its position in the chain.

    Close the `journal` of a shard that is left unfinished: the next worker continues from it.

    `anchors` are the shard's anchors in order; `before` the records of the previous pass by id, None in the first
    pass: an item that ended there is copied unchanged. `chain` are the steps of the pass.
    """

    def __init__(
        self,
        session: Session,
        pass_name: str,
        lease: Lease,
        anchors: Iterable[Record],
        before: Mapping[str, Record] | None,
        chain: Sequence[Step],
    ) -> None:
        self.name, self.lease = lease.shard, lease
        self.opened = time.monotonic()
        self._run = session.run
        self._pass = pass_name
        self._log = session.log.write
        sha256 = session.shards.entry(self.name).sha256
        self._header = session.run.origin(pass_name).header(self.name, sha256)
        header = {**self._header, "worker": session.worker}
        self.journal, older = journal.open_next(self._run.results(pass_name), self.name, header)
        self._rows: dict[str, Row | None] = {}
        self._tally = Tally()
        self._earlier: dict[str, int] = {}  # number of requests of earlier passes, by item id
        self._unfinished: set[str] = set()
        self.tasks: list[Task] = []
        self._chain = chain
        self._judges = any(step.adds == "verdict" for step in chain)
        reached = self._resume(older)
        for data in anchors:
            anchor = Anchor.from_dict(data)
            self._place(anchor, reached.get(anchor.id), None if before is None else before[anchor.id])
        self.items, self.resumed = len(self._rows), self.ended

    @property
    def ended(self) -> int:
        """Number of items that this pass has finished."""
        return len(self._rows) - len(self._unfinished)

    @property
    def complete(self) -> bool:
        return not self._unfinished

    def moved(self, task: Task, ended: bool) -> None:
        """Append the state of an item to the journal after an answer. Raises DiskFull, StoreError."""
        record = task.item.to_record()
        rendered = self.journal.append(record, **{AT: [task.step, task.attempt, task.turn]})
        if ended:
            self._rows[record["id"]] = self._tally.row(record, rendered, self._earlier[record["id"]])
            self._unfinished.discard(record["id"])

    def commit(self) -> bool:
        """Write the result of the complete shard and remove the journals.

        Returns False if another worker has committed a result already; that result stays. Raises DiskFull, StoreError.
        """
        rows = [row for row in self._rows.values() if row is not None]
        assert len(rows) == len(self._rows), f"{self.name} is not complete"
        path = self._run.result(self._pass, self.name)
        is_first = write_rows(path, rows, self._tally, self._header)
        self.journal.close()
        journal.remove_journals(path.parent, self.name)
        return is_first

    def _place(self, anchor: Anchor, reached: Record | None, before: Record | None) -> None:
        """Add an item at the position that it has `reached` according to the journals, or at the begin of the pass.

        The pass processes an item that is accepted so far, or whose rejection another judge may overrule.
        """
        ended = before
        self._earlier[anchor.id] = earlier = len(before["trace"]) if before else 0
        position: tuple[int, ...] = (0, 0, 0)
        overruled = (
            before is not None and before["status"] == "rejected" and before["decided"] and self._judges
        )
        if before is None or before["status"] in ("open", "accepted") or overruled:
            if reached is not None:
                position = tuple(reached.pop(AT))
                item = Item.from_record(anchor, reached)
                ended = reached if reached["status"] != "open" or position[0] >= len(self._chain) else None
            else:
                if before is None:
                    item = begin(self._chain[0].context.kind, anchor)
                else:
                    item = Item.from_record(anchor, before)
                    item.status, item.reason = "open", None
                ended = item.to_record() if item.status != "open" else None
            if ended is None:
                self.tasks.append(Task(item, self.name, *position))
                self._unfinished.add(anchor.id)
        self._rows[anchor.id] = None if ended is None else self._tally.row(ended, earlier=earlier)

    def _resume(self, journals: list[Path]) -> dict[str, Record]:
        """The most advanced record of each item in the journals of all previous workers."""
        best: dict[str, Record] = {}
        for path in journals:
            try:
                records, damage = journal.read_journal(path, self._header)
            except StoreError:
                if path.exists():
                    raise
                continue  # another worker has committed the result; the next heartbeat will notice
            if damage:
                copy = cleanup.quarantine(self._run.quarantine, path, str(damage), copy=True)
                self._log("journal-damaged", shard=self.name, damage=str(damage), copy=str(copy))
            for record in records:
                if _rank(record) > _rank(best.get(record["id"])):
                    best[record["id"]] = record
        return best


def _rank(record: Record | None) -> tuple[int, int, int, int]:
    """Sort key of a journaled item by progress: ended, then step, turn and attempt."""
    if record is None or AT not in record:
        return (-1, 0, 0, 0)
    step, attempt, turn = record[AT]
    return (record["status"] != "open", step, turn, attempt)
