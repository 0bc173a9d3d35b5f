"""Partition of anchors.h5 into shards: streamed, deterministic, resumable, safe if two processes do it at once.

A shard's content depends only on anchors.h5 and the shard size: intact shards stay, missing or damaged ones are
written again. Anchors that were added later (`grown` in the header of anchors.h5) are cut into additional shards after
the existing ones, which do not change. shards/manifest.json is written last and lists all shards.
docs/reference/format.md, section 5.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from itertools import count
from threading import Lock
from typing import Any

from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, MissingFile, StoppedEarly, StoreError
from kgqa_hpc.store import atomic, canonical, cleanup, fingerprint, sealed
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import ANCHORS, SHARD, AnchorsFile, ShardEntry, write_shard
from kgqa_hpc.text.plain_text import shell_word

KIND = "shards"
# Threads that write shards. They mostly wait for the disk; HDF5 itself runs one thread at a time.
WRITERS = 4
_NAME = re.compile(r"shard-[0-9]{6,9}")


@dataclass(frozen=True, slots=True)
class ShardsManifest:
    """shards/manifest.json: all shards in order, their size, and the anchors they were cut from."""

    anchors_sha256: str
    shard_size: int
    items: int
    shards: tuple[ShardEntry, ...]

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self.shards]

    def entry(self, name: str) -> ShardEntry:
        """The entry of a shard by name. Raises KeyError for an unknown name."""
        position = int(name.removeprefix("shard-")) if _NAME.fullmatch(name) else -1
        if not 0 <= position < len(self.shards) or self.shards[position].name != name:
            raise KeyError(name)
        return self.shards[position]

    def holder(self, row: int) -> str:
        """The shard that holds a row of anchors.h5. Raises IndexError."""
        for entry in self.shards:
            if row < entry.items:
                return entry.name
            row -= entry.items
        raise IndexError(row)

    def to_dict(self) -> dict[str, Any]:
        return {"format": f"kgqa-{KIND}", "version": 1, **asdict(self)}


@dataclass(frozen=True, slots=True)
class _Piece:
    """A planned shard: rows [start, stop) of anchors.h5.

    `anchors_sha256` is the sha256 of anchors.h5 when these rows were its last ones, or its first 16 digits; the
    shard's header contains it.
    """

    name: str
    anchors_sha256: str
    shard_size: int
    start: int
    stop: int

    def write(self, run: RunFolder, rows: list[dict[str, Any]]) -> ShardEntry:
        origin = {"anchors_sha256": self.anchors_sha256, "shard_size": self.shard_size, "start": self.start}
        return write_shard(run.shard(self.name), rows, origin)

    def intact(self, run: RunFolder) -> ShardEntry | None:
        """The existing shard if its header is valid and names this origin; any other file goes to quarantine.

        The origin identifies it, not the manifest's sha256: another build of HDF5 may compress the same anchors
        to different bytes.
        """
        path = run.shard(self.name)
        if not atomic.exists(path):
            return None
        try:
            header = sealed.read_header(path, SHARD)
            same_anchors = str(header.get("anchors_sha256")).startswith(self.anchors_sha256)
            same_rows = (header.get("shard_size"), header.get("start")) == (self.shard_size, self.start)
            if same_anchors and same_rows:
                return ShardEntry(self.name, header["rows"], header["sha256"])
            reason = f"{path}: belongs to another partition"
        except MissingFile:  # another process has just moved it to quarantine
            return None
        except CorruptFile as problem:
            reason = problem.message
        cleanup.quarantine(run.quarantine, path, reason)
        return None


def _rounds(header: Mapping[str, Any]) -> list[tuple[int, int, str]]:
    """(begin, end, sha256) of each round of sampling, from the header of anchors.h5.

    Rows [begin, end) were added together; sha256 is that of anchors.h5 after the round (16 digits for earlier rounds).
    """
    ends = [*header.get("grown", ()), (header["rows"], header["sha256"])]
    begins = [0, *(int(end) for end, _ in ends)]
    return [(begin, int(end), str(sha256)) for begin, (end, sha256) in zip(begins, ends, strict=False)]


def _piece(rounds: list[tuple[int, int, str]], shard_size: int, position: int) -> _Piece | None:
    """The planned shard at `position`, found without listing the earlier ones; None after the last shard."""
    before = position
    for begin, end, sha256 in rounds:
        start = begin + before * shard_size
        if start < end:
            return _Piece(shard_name(position), sha256, shard_size, start, min(start + shard_size, end))
        before -= -(-(end - begin) // shard_size)
    return None


def shard_name(position: int) -> str:
    """The name of a shard. Names sort like positions only below a million shards: no order may depend on names."""
    return f"shard-{position:06d}"


def partition(run: RunFolder, shard_size: int, stopped: Callable[[], bool] = lambda: False) -> ShardsManifest:
    """Write all shards and their manifest; verify header and size of existing shards.

    An existing partition is kept whatever `shard_size` is, because results refer to it. Corrupt shards go to
    quarantine and are written again. When `stopped()` is true it ends at once; finished shards stay. Raises
    StoppedEarly; FingerprintMismatch if the shards were cut from another anchors.h5; CorruptFile if
    anchors.h5 is damaged or another run's; DiskFull, StoreError, also if it is missing.
    """
    if not atomic.exists(run.anchors):
        raise StoreError(f"{run.anchors}: no such file", f"sample first: kgqa sample {shell_word(run.path)}")
    header = sealed.read_header(run.anchors, ANCHORS)
    with canonical.curing(f"kgqa sample {shell_word(run.path)} sets it aside and draws this run's"):
        fingerprint.require_origin(run.anchors, header, fingerprint.anchors_origin(run.manifest().sections))
    rounds, manifest = _rounds(header), None
    try:
        manifest = read_shards_manifest(run)
    except MissingFile:
        pass
    except CorruptFile as problem:
        cleanup.quarantine(run.quarantine, run.shards_manifest, problem.message)
    if manifest is None:
        shard_size = _size_in_use(run, header["sha256"]) or shard_size
    elif manifest.anchors_sha256[:16] in {sha256[:16] for _, _, sha256 in rounds}:
        shard_size = manifest.shard_size
    else:
        raise FingerprintMismatch(
            f"{run.shards} was cut from another anchors.h5", "use another run folder, or restore anchors.h5"
        )
    entries = _cut(run, rounds, shard_size, stopped)
    current = ShardsManifest(header["sha256"], shard_size, rounds[-1][1], entries)
    if current != manifest:
        atomic.make_folder(run.shards)
        canonical.write_document(run.shards_manifest, current.to_dict())
    return current


def _cut(
    run: RunFolder, rounds: list[tuple[int, int, str]], shard_size: int, stopped: Callable[[], bool]
) -> tuple[ShardEntry, ...]:
    """Write the missing shards and return the entries of all.

    Threads do it, because they mostly wait for the disk; each holds the anchors of one shard.
    """
    lock, positions = Lock(), count()
    with ExitStack() as stack:
        anchors = cache(lambda: stack.enter_context(AnchorsFile(run.anchors)))

        def entry(piece: _Piece) -> ShardEntry:
            if stopped():
                raise StoppedEarly("stopped early while cutting shards", "run the same command again")
            if (present := piece.intact(run)) is not None:
                return present
            with lock:  # the first missing shard opens anchors.h5
                atomic.make_folder(run.shards)
                rows = list(anchors().rows(piece.start, piece.stop))
            return piece.write(run, rows)

        with ThreadPoolExecutor(WRITERS) as writers:
            pieces = iter(lambda: _piece(rounds, shard_size, next(positions)), None)
            return tuple(writers.map(entry, pieces))


def read_shards_manifest(run: RunFolder) -> ShardsManifest:
    """The content of shards/manifest.json. Raises CorruptFile, NewerFormat, StoreError if it is missing."""
    with canonical.curing(f"kgqa run {shell_word(run.path)} makes it anew; no result is lost"):
        content = canonical.read_document(run.shards_manifest, KIND)
    try:
        shards = tuple(ShardEntry(**entry) for entry in content["shards"])
        return ShardsManifest(content["anchors_sha256"], content["shard_size"], content["items"], shards)
    except (KeyError, TypeError):
        raise CorruptFile(f"{run.shards_manifest}: not a manifest of shards") from None


def _size_in_use(run: RunFolder, anchors_sha256: str) -> int | None:
    """Size of the existing shards: if only the manifest was lost, results may still refer to them."""
    for path in sorted(run.shards.glob("shard-*.h5")):
        try:
            header = sealed.read_header(path, SHARD)
        except StoreError:
            continue
        if header.get("anchors_sha256") == anchors_sha256 and isinstance(header.get("shard_size"), int):
            return int(header["shard_size"])
    return None


def load_shard(run: RunFolder, manifest: ShardsManifest, name: str) -> list[dict[str, Any]]:
    """The anchors of a shard; a damaged, foreign or missing one is cut again from anchors.h5 first.

    Raises KeyError for an unknown name; CorruptFile when anchors.h5 is damaged too; DiskFull, StoreError.
    """
    with stream_shard(run, manifest, name) as anchors:
        return list(anchors)


@contextmanager
def stream_shard(run: RunFolder, manifest: ShardsManifest, name: str) -> Iterator[Iterator[dict[str, Any]]]:
    """Read a shard with a single anchor in memory at a time; every byte is verified before the first anchor."""
    position, path = int(manifest.entry(name).name.removeprefix("shard-")), run.shard(name)
    piece = _piece(_rounds(sealed.read_header(run.anchors, ANCHORS)), manifest.shard_size, position)
    if piece is None:
        raise CorruptFile(f"{run.shards_manifest}: lists {name}, for which {run.anchors} has no anchors")
    shard = None
    if piece.intact(run) is not None:
        try:
            shard = AnchorsFile(path, SHARD)
        except MissingFile:  # another process has just moved it to quarantine
            pass
        except CorruptFile as problem:
            cleanup.quarantine(run.quarantine, path, problem.message)
    if shard is None:
        with AnchorsFile(run.anchors) as anchors:
            piece.write(run, list(anchors.rows(piece.start, piece.stop)))
        shard = AnchorsFile(path, SHARD)
    with shard:
        yield shard.rows()
