"""What a pass has brought so far: sums over the headers of its results, each read once.

A header is 1 KiB in front of the file, so ten thousand results take about a second, and a tally that was
saved (in status.json) only reads what is new.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kgqa_hpc.errors import CorruptFile, MissingFile
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.results import read_summary
from kgqa_hpc.store.run_folder import RunFolder


@dataclass
class Tally:
    """Sums of one pass. `counted` are the shards in them; `corrupt` those whose header does not read."""

    pass_name: str
    counted: set[str] = field(default_factory=set)
    corrupt: set[str] = field(default_factory=set)
    items: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    repaired: int = 0

    def refresh(self, run: RunFolder) -> None:
        """Take in the results that came since; begin again when one of the counted is gone."""
        done = done_shards(run, self.pass_name)
        if self.counted - done:
            self.__init__(self.pass_name)  # type: ignore[misc]
        self.corrupt &= done
        folder, origin = run.results(self.pass_name), run.origin(self.pass_name)
        for shard in sorted(done - self.counted):
            try:
                self._add(shard, read_summary(folder / f"{shard}.h5", origin))
            except CorruptFile:
                self.corrupt.add(shard)
            except MissingFile:  # set aside since the look: no result any more
                self.corrupt.discard(shard)

    def _add(self, shard: str, header: dict[str, Any]) -> None:
        self.counted.add(shard)
        self.corrupt.discard(shard)
        self.items += header["rows"]
        for sums, key in ((self.counts, "counts"), (self.reasons, "reasons"), (self.tokens, "tokens")):
            for name, number in header[key].items():  # Counter.update is ten times as slow on so few
                sums[name] += number
        self.requests += header["requests"]
        self.repaired += header["repaired"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the counted shards as the bits of a hexadecimal number."""
        bits = 0
        for shard in self.counted:
            bits |= 1 << int(shard.rpartition("-")[2])
        return {
            "counted": f"{bits:x}",
            "items": self.items,
            "counts": dict(self.counts),
            "reasons": dict(self.reasons),
            "tokens": dict(self.tokens),
            "requests": self.requests,
            "repaired": self.repaired,
        }

    @classmethod
    def from_dict(cls, pass_name: str, data: dict[str, Any], names: list[str]) -> Tally:
        """The inverse of `to_dict`; `names` are all shards in order."""
        bits = int(data["counted"], 16)
        return cls(
            pass_name,
            {name for position, name in enumerate(names) if bits >> position & 1},
            set(),
            data["items"],
            Counter(data["counts"]),
            Counter(data["reasons"]),
            Counter(data["tokens"]),
            data["requests"],
            data["repaired"],
        )
