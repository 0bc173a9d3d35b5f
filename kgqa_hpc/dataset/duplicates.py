"""Duplicates among accepted questions: equal words (exact), or a high Jaccard index of character 5-grams (near).

Near duplicates: bands of MinHash signatures (words.py) propose pairs, and an exact comparison confirms them, so no
pair below the threshold is rejected. Within a bucket of equal band hashes, a question is compared with the leader (the
first question) of each similar set found so far. The first record of each connected group is kept.

Memory: about 40 bytes per question. The words are stored in a file and read when two questions are compared.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from kgqa_hpc.dataset.candidates import Candidates, repeated
from kgqa_hpc.dataset.words import band_name, band_shape, grams_of_words

# Exact duplicates: all rows but the first accepted one with the same words.
REPEATED = repeated("status = 'accepted'")
CACHED = 512  # questions whose grams are kept, 25 kB each
REMEMBERED = 4  # last bands whose leaders are remembered, to avoid repeated comparisons


def near_duplicates(candidates: Candidates, threshold: float, scratch: Path) -> np.ndarray:
    """Row numbers of the accepted questions connected to an earlier one: int64, ascending."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows = candidates.accepted
    path = scratch / "words.arrow"
    with pa.ipc.new_file(path, pa.schema([("words", pa.string())])) as out:
        for _, table in candidates.staged.read(["words"], rows):
            out.write_table(table.combine_chunks())
    remembered = np.full((REMEMBERED, len(rows)), -1, np.int32)
    links = [np.empty((2, 0), np.int32)]
    with pa.memory_map(str(path)) as source:
        texts = pa.ipc.open_file(source).read_all()["words"]

        @lru_cache(CACHED)
        def grams(question: int) -> set[str]:
            return set(grams_of_words(texts[question].as_py()))

        similar = partial(_similar, grams, threshold, remembered)
        for band in range(band_shape(threshold)[0]):
            members, leaders = _sets(_hashes(candidates, rows, band), remembered, similar)
            remembered[band % REMEMBERED, members] = leaders
            links.append(np.stack([leaders, members]))
    path.unlink()
    pairs = np.concatenate(links, axis=1)
    graph = coo_array((np.ones(pairs.shape[1], np.int8), tuple(pairs)), shape=(len(rows), len(rows)))
    return rows[pd.Index(connected_components(graph, directed=False)[1]).duplicated()]


def _hashes(candidates: Candidates, rows: np.ndarray, band: int) -> np.ndarray:
    """The hash of each question in a band: uint64, shape (n,)."""
    name = band_name(band)
    tables = candidates.staged.read([name], rows)
    return np.concatenate([np.empty(0, np.uint64), *(table[name].to_numpy() for _, table in tables)])


def _similar(
    grams: Callable[[int], set[str]], threshold: float, leaders: np.ndarray, earlier: int, later: int
) -> bool:
    """Whether two questions are similar; `leaders` holds each question's leaders in earlier bands."""
    if earlier in leaders[:, later]:
        return True
    common = len(grams(earlier) & grams(later))
    return common / (len(grams(earlier)) + len(grams(later)) - common) >= threshold


def _sets(
    hashes: np.ndarray, earlier_leaders: np.ndarray, similar: Callable[[int, int], bool]
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
    firsts: list[int] = []
    # Memory views: lists would need an object per number.
    views = unknown.data, members[unknown].data, begins[unknown].data
    for position, member, begins_set in zip(*views, strict=True):
        if begins_set:
            firsts = []
        leader = next((candidate for candidate in firsts if similar(candidate, member)), member)
        if leader == member:
            firsts.append(member)
        leaders[position] = leader
    later = leaders != members
    return members[later], leaders[later]
