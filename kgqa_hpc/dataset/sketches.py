"""What the search for duplicates needs of a shard: a file beside its spool, made by whoever reads the shard.

It has an entry for each row that the judges accepted: a digest of its question's words, and where near duplicates are
looked for, the words themselves and the hashes of its bands. A MinHash signature of 128 permutations (rensa) is cut
into bands, and questions that agree in a whole band are compared (near_search.py); how many rows a band has follows
from the threshold, so that a pair at it is missed in less than one of a thousand cases.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kgqa_hpc.config import RunConfig
from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store.atomic import write_file
from kgqa_hpc.text.plain_text import normalized

PERMUTATIONS = 128
MISSED = 1e-3  # share of pairs at the threshold that bands may miss
BATCH = 64  # questions hashed at a time: their grams stay in the processor's cache
GRAM = 5  # characters of a gram
HEAD = 24  # bytes before the table: its columns and rows, and the CRC-32 of what follows
ROW, DIGEST, END, BAND = 0, slice(1, 3), 3, 4  # columns of the table; one a band from BAND on
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words without punctuation (NFKC, case folded)."""
    return _WORD.findall(normalized("NFKC", text).casefold())


def grams(text: str) -> set[str]:
    """The distinct character 5-grams of the words, joined by single spaces; a shorter text is one gram."""
    return set(_grams(" ".join(words(text))))


def _grams(plain: str) -> list[str]:
    """As a slice at each position gives them, in a third of the time."""
    if len(plain) <= GRAM:
        return [plain]
    characters = plain.encode("utf-32-le")
    found: list[str] = np.ndarray(len(plain) - GRAM + 1, f"<U{GRAM}", characters, strides=(4,)).tolist()
    return found


def band_shape(threshold: float) -> tuple[int, int]:
    """Bands and signature rows per band: the highest bands that miss few enough pairs at the threshold."""
    for height in range(PERMUTATIONS, 1, -1):
        bands = PERMUTATIONS // height
        if (1 - threshold**height) ** bands <= MISSED:
            return bands, height
    return PERMUTATIONS, 1


def sketch_of(spool: Path) -> Path:
    """The sketch that belongs to a spool."""
    return spool.with_suffix(".sketch")


class SketchMaker:
    """Writes the sketches of a run; none where its settings look for no duplicates.

    Raises InputError when near duplicates are wanted and rensa is not installed.
    """

    def __init__(self, config: RunConfig) -> None:
        wish = config.dataset.duplicates
        self._wanted = wish is not None and (wish.exact or wish.near is not None)
        self._shape = (0, 0) if wish is None or wish.near is None else band_shape(wish.near)
        self._seed = config.seed % 2**32
        self._hasher: Any = _rensa() if self._shape[0] else None

    def write(self, spool: Path, accepted: Sequence[tuple[int, str]], *, durable: bool = False) -> None:
        """Write the sketch of a spool's accepted rows, given as (number, question). Raises DiskFull, StoreError."""
        if not self._wanted:
            return
        texts = [" ".join(words(question)) for _, question in accepted]
        data = [text.encode("utf-8", "replace") for text in texts]
        bands, height = self._shape
        table = np.zeros((BAND + bands, len(data)), np.uint64)
        table[ROW] = [row for row, _ in accepted]
        digests = b"".join([hashlib.blake2b(one, digest_size=16).digest() for one in data])
        table[DIGEST] = np.frombuffer(digests, np.uint64).reshape(-1, 2).T
        table[END] = np.cumsum([len(one) for one in data])
        for start, signatures in self._signatures(texts):
            here = slice(start, start + len(signatures))
            table[BAND:, here] = _band_hashes(signatures[:, : bands * height].reshape(-1, bands, height)).T
        body = b"".join([table.tobytes(), *(data if bands else ())])
        head = np.array([*table.shape, zlib.crc32(body)], np.uint64).tobytes()
        write_file(sketch_of(spool), head + body, durable=durable)

    def _signatures(self, texts: list[str]) -> Iterator[tuple[int, np.ndarray]]:
        """(position of the first, (batch, 128) uint32) of the texts in their order."""
        for start in range(0, len(texts) if self._hasher else 0, BATCH):
            sets = [_grams(text) for text in texts[start : start + BATCH]]
            signatures = self._hasher.digests_from_token_sets(sets, PERMUTATIONS, self._seed)
            yield start, np.array(signatures, np.uint32)


class Sketch:
    """A sketch as it lies on disk; what is asked for is read, and nothing is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        columns, self._rows, self._sum = np.fromfile(path, np.uint64, 3).tolist()
        self._text = HEAD + 8 * columns * self._rows

    @property
    def rows(self) -> np.ndarray:
        """Numbers of its rows in the spool, ascending."""
        return self.column(ROW).astype(np.int64)

    def column(self, number: int) -> np.ndarray:
        """A column of the table, shape (rows,)."""
        return np.fromfile(self._path, np.uint64, self._rows, offset=HEAD + 8 * number * self._rows)

    def require_whole(self) -> None:
        """Raise StoreError when it is not what was written; it and its spool are then removed, and so made anew."""
        if zlib.crc32(self._path.read_bytes()[HEAD:]) != self._sum:
            self._path.with_suffix(".spool").unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
            raise StoreError(f"{self._path}: was not what was written there and is removed", "merge again")

    def digests(self) -> np.ndarray:
        """(2, rows): equal for questions of the same words."""
        return np.stack([self.column(number) for number in range(DIGEST.start, DIGEST.stop)])

    def grams(self, place: int) -> set[str]:
        """The grams of the question of `rows[place]`."""
        before = min(place, 1)  # the first begins at 0
        with self._path.open("rb", buffering=0) as file:
            read = partial(os.pread, file.fileno())
            ends = read(8 + 8 * before, HEAD + 8 * (END * self._rows + place - before))
            start, end = np.frombuffer(bytes(8 - 8 * before) + ends, np.uint64).tolist()
            return set(_grams(read(end - start, self._text + start).decode()))


def _rensa() -> Any:
    try:
        from rensa import RMinHash
    except ImportError:
        raise InputError(
            "dataset.duplicates.near needs rensa, which is not installed", "pip install 'rensa>=0.5'"
        ) from None
    return RMinHash


def _band_hashes(bands: np.ndarray) -> np.ndarray:
    """64 bits of each band's values, (rows, bands) of (rows, bands, height); equal values have equal ones."""
    mixed = np.zeros(bands.shape[:2], np.uint64)
    for height in range(bands.shape[2]):
        mixed = (mixed ^ bands[:, :, height]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
