"""Duplicates among accepted questions: equal words (exact), or a high Jaccard index of character 5-grams (near).

Near duplicates: staging adds a MinHash signature of 128 permutations (rensa) to each question, cut into bands, each a
column. Questions with an equal band are compared exactly, so no pair below the threshold is rejected. The height of a
band is the largest at which a pair at the threshold is missed with a probability below 0.001. Within a bucket of equal
band hashes, a question is compared with the leader (the first question) of each similar set found so far. The first
record of each connected group is kept.

Memory: about 40 bytes per question, and 5 kB per leader of the largest bucket. The words are stored in a file and read
when two questions are compared.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from heapq import nsmallest
from itertools import chain, pairwise
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa

from kgqa_hpc.config import RunConfig
from kgqa_hpc.dataset.candidates import Staged
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import normalized

GRAM = 5  # characters per gram
PERMUTATIONS = 128
MISSED = 1e-3  # share of pairs at the threshold that bands may miss
BATCH = 64  # questions hashed at a time: their grams stay in the processor's cache
CACHED = 512  # questions whose grams are kept, 25 kB each
FEW = 32  # up to this number of leaders, each is compared with every question of the bucket
COMMON = 6  # with more leaders, a question is compared with those that share this number of rare grams
REMEMBERED = 4  # number of last bands whose leaders are remembered, to avoid repeated comparisons
_WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Lower-case words without punctuation (NFKC, case folded)."""
    return _WORD.findall(normalized("NFKC", text).casefold())


def grams_of_words(plain: str) -> list[str]:
    """The character 5-grams of words joined by single spaces, by position; a shorter text is one gram.

    A strided view of the characters is faster than slicing.
    """
    if len(plain) <= GRAM:
        return [plain]
    characters = plain.encode("utf-32-le")
    grams: list[str] = np.ndarray(len(plain) - GRAM + 1, f"<U{GRAM}", characters, strides=(4,)).tolist()
    return grams


def band_shape(threshold: float) -> tuple[int, int]:
    """Bands and signature rows per band: the highest bands that miss few enough pairs at the threshold."""
    for height in range(PERMUTATIONS, 1, -1):
        bands = PERMUTATIONS // height
        if (1 - threshold**height) ** bands <= MISSED:
            return bands, height
    return PERMUTATIONS, 1


def band_name(number: int) -> str:
    """The name of the staged column of a band."""
    return f"band_{number:03d}"


def signatures(config: RunConfig) -> Callable[[pa.Table], pa.Table]:
    """A function that adds the band hashes of the column `words` to a staged table: a uint64 column per band.

    Null where there are no words; no column where the run looks for no near duplicates. Raises InputError when rensa is
    not installed.
    """
    duplicates = config.dataset.duplicates
    if duplicates is None or duplicates.near is None:
        return lambda table: table
    try:
        from rensa import RMinHash
    except ImportError:
        raise InputError(
            "dataset.duplicates.near needs rensa, which is not installed", "pip install 'rensa>=0.5'"
        ) from None
    bands, height = band_shape(duplicates.near)
    seed = config.seed % 2**32

    def add(table: pa.Table) -> pa.Table:
        has = table["words"].is_valid().to_numpy()
        texts = table["words"].drop_null().to_pylist()
        signed = []
        for start in range(0, len(texts), BATCH):
            sets = [grams_of_words(text) for text in texts[start : start + BATCH]]
            signed += RMinHash.digests_from_token_sets(sets, PERMUTATIONS, seed)
        used = np.array(signed, np.uint32).reshape(len(texts), PERMUTATIONS)[:, : bands * height]
        mixed = np.zeros((len(texts), bands), np.uint64)
        for values in used.reshape(-1, bands, height).transpose(2, 0, 1):
            mixed = (mixed ^ values) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        hashes = np.zeros((bands, len(table)), np.uint64)
        hashes[:, has] = mixed.T
        for number, band in enumerate(hashes):
            table = table.append_column(band_name(number), pa.array(band, mask=~has))
        return table

    return add


def near_duplicates(staged: Staged, rows: np.ndarray, threshold: float, scratch: Path) -> np.ndarray:
    """Those of `rows` (ascending) whose question is similar to an earlier question, directly or through others: int64,
    ascending.
    """
    path = scratch / "words.arrow"
    with pa.ipc.new_file(path, pa.schema([("words", pa.string())])) as out:
        for _, table in staged.read(["words"], rows):
            out.write_table(table.combine_chunks())
    remembered = np.full((REMEMBERED, len(rows)), -1, np.int32)
    links = [np.empty((2, 0), np.int32)]
    with pa.memory_map(str(path)) as source:
        texts = pa.ipc.open_file(source).read_all()["words"]

        @lru_cache(CACHED)
        def grams(question: int) -> set[str]:
            return set(grams_of_words(texts[question].as_py()))

        def similar(earlier: int, later: int) -> bool:
            if earlier in remembered[:, later]:  # they were compared in an earlier band
                return True
            common = len(grams(earlier) & grams(later))
            return common / (len(grams(earlier)) + len(grams(later)) - common) >= threshold

        def lead(bucket: list[int]) -> list[int]:
            return leaders_of(bucket, grams, similar, threshold)

        for band in range(band_shape(threshold)[0]):
            members, leaders = _sets(_hashes(staged, rows, band), remembered, lead)
            remembered[band % REMEMBERED, members] = leaders
            links.append(np.stack([leaders, members]))
    path.unlink()
    groups = connected(np.concatenate(links, axis=1), len(rows))
    return np.delete(rows, np.unique(groups, return_index=True)[1])


def connected(pairs: np.ndarray, number: int) -> np.ndarray:
    """The group of each of `number` things that `pairs`, shape (2, n), connect: int32, shape (number,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(pairs.shape[1], np.int8), tuple(pairs)), shape=(number, number))
    groups: np.ndarray = connected_components(graph, directed=False)[1] if number else np.empty(0, np.int32)
    return groups


def _hashes(staged: Staged, rows: np.ndarray, band: int) -> np.ndarray:
    """The hash of each question in a band: uint64, shape (n,)."""
    name = band_name(band)
    tables = staged.read([name], rows)
    return np.concatenate([np.empty(0, np.uint64), *(table[name].to_numpy() for _, table in tables)])


def _sets(
    hashes: np.ndarray, earlier_leaders: np.ndarray, lead: Callable[[list[int]], list[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Questions similar to an earlier one with an equal hash, and the leader of each (two int arrays of equal
    length).
    """
    order = np.argsort(hashes, kind="stable").astype(np.int32)
    hashes = hashes[order]
    begins, ends = np.ones((2, len(order)), bool)
    begins[1:] = ends[:-1] = hashes[1:] != hashes[:-1]
    shared = ~(begins & ends)
    members, begins = order[shared], begins[shared]
    leaders = members[begins][np.cumsum(begins) - 1]
    unknown = np.flatnonzero(~np.any([leader[members] == leaders for leader in earlier_leaders], axis=0))
    bounds = np.append(np.flatnonzero(begins[unknown]), len(unknown))
    for begin, end in pairwise(bounds):
        leaders[unknown[begin:end]] = lead(members[unknown[begin:end]].tolist())
    later = leaders != members
    return members[later], leaders[later]


def leaders_of(
    bucket: list[int],
    grams: Callable[[int], set[str]],
    similar: Callable[[int, int], bool],
    threshold: float,
) -> list[int]:
    """The leader of each question of a bucket: the earliest similar leader, else the question itself."""
    chosen, leaders = list[int](), list[int]()
    index: _RareGrams | None = None
    for question in bucket:
        if index is None and len(leaders) > FEW:
            index = _RareGrams(bucket, leaders, grams, threshold)
        candidates = leaders if index is None else index.candidates(question)
        leader = next((candidate for candidate in candidates if similar(candidate, question)), question)
        if leader == question:
            leaders.append(question)
            if index is not None:
                index.add(question)
        chosen.append(leader)
    return chosen


class _RareGrams:
    """Index of the leaders of a bucket by their rarest grams, for buckets of many leaders (questions from a template).

    No similar pair is lost (prefix filtering: Chaudhuri, Ganti and Kaushik 2006, section 4): a question of n grams has
    t n or more in common with any whose Jaccard index is at least t, so COMMON of these (or all, if they are fewer) are
    among the (1 - t) n + COMMON rarest of each.
    """

    def __init__(
        self, bucket: list[int], leaders: list[int], grams: Callable[[int], set[str]], threshold: float
    ) -> None:
        self._grams, self._threshold = grams, threshold
        self._counts = Counter(chain.from_iterable(map(grams, bucket)))
        self._leaders: dict[str, list[int]] = {}
        for leader in leaders:
            self.add(leader)

    def add(self, leader: int) -> None:
        for gram in self._rarest(leader):
            self._leaders.setdefault(gram, []).append(leader)

    def candidates(self, question: int) -> list[int]:
        """The leaders that may be similar to the question, the earliest first."""
        sharing = Counter(chain.from_iterable(self._leaders.get(gram, ()) for gram in self._rarest(question)))
        least = min(COMMON, self._common(question))
        return sorted(leader for leader, number in sharing.items() if number >= least)

    def _rarest(self, question: int) -> list[str]:
        grams = self._grams(question)
        number = len(grams) - self._common(question) + COMMON
        return nsmallest(number, grams, key=lambda gram: (self._counts[gram], gram))

    def _common(self, question: int) -> int:
        """The number of grams that the question has in common with any similar one, at least."""
        return ceil(len(self._grams(question)) * self._threshold - 1e-6)
