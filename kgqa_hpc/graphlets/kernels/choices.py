"""Random numbers that never change, and the parts that all draws share: choices, roots, adjacency of the nodes drawn.

numpy does not promise the streams of its generators across versions, so the samples would not be reproducible for
ever. SplitMix64 (Steele, Lea, Flood 2014; finaliser of MurmurHash3 by Appleby, constants by Stafford) is a bijection
of 64-bit words; number i of a stream is mix(key + i * odd constant), so any part of a stream can be computed without
the rest. In kernels each draw has a stream, which does not depend on which other draws are made, where, or in what
order. All choices are exact (numbers beyond the last full multiple are skipped), so no rounding enters a probability.

A bit table excludes most pairs of nodes at once, a search in the row decides on the others. One bit per edge at
the hash of its ends (Bloom 1970, one hash function): with 16 bits an edge the table of ten million edges has 20
MB and stays in a cache, where rows do not. A bit that is set is checked in the row, so answers are exact. Hashing
is Fibonacci's (Knuth, TAOCP 3, 6.4): the highest bits of a product. Tables of up to 2**32 bits.
"""

import numpy as np

from kgqa_hpc.graphlets.kernels.triangles import find_slot
from kgqa_hpc.jit import helper, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STRIDE = np.uint64(0xD1342543DE82EF95)  # an odd constant: spreads consecutive counters over all 64-bit words
MAX_TOTAL = 2**62  # largest number of ranks: above it, int64 sums of counts could overflow
BITS_PER_EDGE = 16  # size of the bit table; one in 16 pairs that are no edge is a false positive


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


@helper
def next_word(state):
    """The next 64 random bits; state is uint64 (1,)."""
    state[0] += _GOLDEN
    x = state[0]
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@helper
def begin_draw(state, key, number):
    """Set the state to the start of stream `number` of `key`."""
    state[0] = np.uint64(key) ^ (np.uint64(number) * _STRIDE)
    state[0] = next_word(state)


@helper
def below(state, n):
    """Uniform integer of [0, n), int64; n > 0."""
    size = np.uint64(n)
    while True:
        word = next_word(state)
        remainder = word % size
        if word - remainder <= np.uint64(0) - size:  # the last, incomplete multiple is skipped
            return np.int64(remainder)


@helper
def weighted(state, cumulative, start, size):
    """Index i < size in proportion to weight start + i; `cumulative` int64: running sums from start, the last > 0."""
    goal = below(state, cumulative[start + size - 1])
    return first_above(cumulative, start, start + size - 1, goal) - start


@helper
def first_above(cumulative, low, high, goal):
    """First index of low, …, high with cumulative[index] > goal; the caller ensures that it exists."""
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > goal:
            high = middle
        else:
            low = middle + 1
    return low


@helper
def other_neighbour(state, indptr, indices, vertex, a, b, c):
    """Uniform neighbour of `vertex` other than a, b and c; the caller ensures that it exists."""
    start = indptr[vertex]
    degree = indptr[vertex + 1] - start
    while True:
        x = np.int64(indices[start + below(state, degree)])
        if x != a and x != b and x != c:
            return x


@kernel
def pick_roots(cumulative, guide, goals, offset, picks):
    """picks[i] = root << 32 | (offset + i), int64: the first root with cumulative[root] > goals[i].

    `cumulative` (n,) and `goals` are int64 or float64, goals below the last sum. `guide` int64 (buckets + 1,)
    (Chen, Asau 1974) holds the search results for the bounds of equal buckets, which shortens each search to
    few steps; bounds are rounded, so the search includes one more bucket on either side.
    """
    buckets = guide.shape[0] - 1
    scale = buckets / np.float64(cumulative[-1])
    for i in range(goals.shape[0]):
        bucket = np.int64(goals[i] * scale)
        low = guide[max(bucket - 1, 0)]
        high = min(guide[min(bucket + 2, buckets)], cumulative.shape[0] - 1)
        picks[i] = first_above(cumulative, low, high, goals[i]) << 32 | (offset + i)


@kernel
def set_bits(part, parts, indptr, indices, table):
    """Set the bits of all edges that lie in the given part of `table`, uint64 words, zero before.

    Parts may run in parallel: each reads all edges and writes its own words.
    """
    start = table.shape[0] * part // parts
    last = table.shape[0] * (part + 1) // parts
    for v in range(indptr.shape[0] - 1):
        for slot in range(indptr[v], indptr[v + 1]):
            if indices[slot] > v:
                break
            bit = _place(table, v, indices[slot])
            word = np.int64(bit >> np.uint64(6))
            if start <= word < last:
                table[word] |= np.uint64(1) << (bit & np.uint64(63))


@helper
def _place(table, a, b):
    """Position of a pair's bit: the highest 32 bits of the product, scaled to the size of the table."""
    key = (np.uint64(max(a, b)) << np.uint64(32)) | np.uint64(min(a, b))
    product = key * _GOLDEN
    return (product >> np.uint64(32)) * np.uint64(64 * table.shape[0]) >> np.uint64(32)


@helper
def may_be_adjacent(table, a, b):
    """0 if the pair is not adjacent, 1 if it may be; int64."""
    bit = _place(table, a, b)
    return np.int64((table[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(1))


@helper
def adjacent(indptr, indices, a, b):
    """Whether {a, b} is an edge, by a search in the shorter row."""
    if indptr[a + 1] - indptr[a] > indptr[b + 1] - indptr[b]:
        a, b = b, a
    slot = find_slot(indptr, indices, a, b)
    return slot < indptr[a + 1] and indices[slot] == b


@helper
def possible_code(table, row, size):
    """Adjacency code with all pairs that may be adjacent. Without branches, the processor overlaps the loads."""
    code = np.int64(0)
    for j in range(1, size):
        for i in range(j):
            code |= may_be_adjacent(table, row[i], row[j]) << (j * (j - 1) // 2 + i)
    return code


@helper
def exact_code(indptr, indices, row, size, full_code, possible):
    """Adjacency code of the nodes row[:size], given the pairs that are edges and those that may be."""
    code = full_code
    for j in range(1, size):
        for i in range(j):
            bit = np.int64(1) << (j * (j - 1) // 2 + i)
            if possible & bit & ~full_code and adjacent(indptr, indices, row[i], row[j]):
                code |= bit
    return code


@helper
def induced_code(indptr, indices, table, row, size, full_code):
    """Adjacency code of the nodes row[:size]; pairs in the code `full_code` are edges already."""
    return exact_code(indptr, indices, row, size, full_code, possible_code(table, row, size))
