"""Random numbers that never change: SplitMix64 used as a counter-based generator.

numpy does not promise the streams of its generators across versions, so the samples would not be reproducible
for ever. SplitMix64 (Steele, Lea, Flood 2014; finaliser of MurmurHash3 by Appleby, constants by Stafford) is
a bijection of 64-bit words; number i of a stream is mix(key + i * odd constant), so any part of a stream can
be computed without the rest.
"""

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STRIDE = np.uint64(0xD1342543DE82EF95)  # an odd constant: spreads consecutive counters over all 64-bit words
MAX_TOTAL = 2**62  # largest number of ranks: above it, int64 sums of counts could overflow


def mix(words: np.ndarray | int) -> np.ndarray:
    """SplitMix64 of each 64-bit word; returns uint64 of the same shape."""
    x = np.array(words, np.uint64)
    with np.errstate(over="ignore"):
        x += _GOLDEN
        x ^= x >> np.uint64(30)
        x *= _FIRST
        x ^= x >> np.uint64(27)
        x *= _SECOND
        x ^= x >> np.uint64(31)
    return x


def key_of(*parts: int) -> int:
    """One 64-bit key from several non-negative numbers (seed, shape, batch …); the order counts."""
    key = 0
    for part in parts:
        key = int(mix((key ^ part) & 0xFFFFFFFFFFFFFFFF))
    return key


def rank_sequence(total: int, size: int, *key: int) -> np.ndarray:
    """The first `size` numbers of a random order of 0, …, total - 1 that depends on `key`; int64 (size,).

    Every order is equally likely and the sequence for a smaller `size` is the beginning of that for a larger
    one. All numbers if `size` >= `total`. The first half of the order is the distinct words of a stream in
    stream order, reduced exactly (words beyond the last multiple of `total` are skipped); the second half is
    the remaining numbers, ordered by keyed priorities, because the stream would take long to hit them. Raises
    OverflowError for a `total` above 2**62.
    """
    if total > MAX_TOTAL:
        raise OverflowError(f"{total:,} occurrences are too many to number")
    half = total // 2
    begin = _different_words(total, min(size, half), key_of(*key))
    if size <= half:
        return begin
    is_open = np.ones(total, bool)
    is_open[begin] = False
    remaining = np.flatnonzero(is_open)
    priority = mix(mix(remaining) ^ np.uint64(key_of(*key, 4)))
    return np.concatenate([begin, remaining[np.argsort(priority, kind="stable")[: size - half]]])


def _different_words(total: int, size: int, key: int) -> np.ndarray:
    """The first `size` distinct numbers below `total` of a stream, in stream order; int64. Needs 2 size <= total."""
    distinct = np.zeros(0, np.int64)
    if not size:
        return distinct
    limit = np.uint64(2**64 // total * total - 1)
    counter = 0
    while True:
        with np.errstate(over="ignore"):
            words = mix(np.arange(counter, counter + 2 * size, dtype=np.uint64) * _STRIDE + np.uint64(key))
        counter += 2 * size
        words = words[words <= limit]
        distinct = np.concatenate([distinct, (words % np.uint64(total)).astype(np.int64)])
        _, first_rows = np.unique(distinct, return_index=True)
        if len(first_rows) >= size:
            return distinct[np.sort(first_rows)[:size]]


def scaled(key: int, numbers: np.ndarray, total: int | float) -> np.ndarray:
    """A uniform number of [0, total) for each counter in `numbers`, a pure function of (key, counter, total).

    Exactly uniform integers when `total` is an integer up to 2**62, else float64 with 53 random bits.
    """
    with np.errstate(over="ignore"):
        words = mix(np.asarray(numbers, np.uint64) * _STRIDE + np.uint64(key))
        if isinstance(total, float):
            return (words >> np.uint64(11)).astype(np.float64) * (float(total) / 2**53)
        limit = np.uint64(2**64 // int(total) * int(total) - 1) if total else np.uint64(0)
        while (again := words > limit).any():
            words[again] = mix(words[again] + np.uint64(key))
    return (words % np.uint64(total)).astype(np.int64)
