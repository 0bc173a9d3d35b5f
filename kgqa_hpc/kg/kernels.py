"""Compiled loops over whole graphs: the numbering of ids, and k-cores."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kgqa_hpc.jit import helper, kernel
from kgqa_hpc.kg.relations import Codes

_FIRST_SLOTS = 1 << 16
_PRIME = np.uint64(0x100000001B3)
_LOW = np.uint64(0xFFFFFFFF)


class Interner:
    """Distinct texts, each with its number (its place in the order of first appearance).

    Each id is stored once: a graph of 100 million edges names its nodes 200 million times. Arrow gives the ids of a
    batch as one run of bytes; compiled code looks each id up in an open-addressing table and appends new ids, so that
    an edge costs two int32 and a node its id's bytes and about 30 more.
    """

    def __init__(self) -> None:
        self._count = 0
        self._slots = np.zeros(_FIRST_SLOTS, np.uint64)
        self._hashes = np.empty(_FIRST_SLOTS // 2, np.uint64)
        self._offsets = np.zeros(_FIRST_SLOTS // 2 + 1, np.int64)
        self._bytes = np.empty(1 << 20, np.uint8)
        # A random seed of the hashes: no file can be made whose ids all collide. The numbers do not depend on it.
        self._seed = np.uint64(int.from_bytes(os.urandom(8), "little"))

    def numbers(self, values: pa.Array) -> Codes:
        """The number of each value (large_string, no nulls), int32; new values are added."""
        return self.pairs(values, pa.array([], pa.large_string()))[0]

    def texts(self) -> pa.Array:
        """The distinct texts in the order of their numbers, large_string; a copy."""
        offsets = self._offsets[: self._count + 1].copy()
        data = self._bytes[: offsets[-1]].copy()
        return pa.LargeStringArray.from_buffers(self._count, pa.py_buffer(offsets), pa.py_buffer(data))

    def pairs(self, left_texts: pa.Array, right: pa.Array) -> tuple[Codes, Codes]:
        """Numbers for two arrays, assigned alternately: left[0], right[0], left[1] …; the right one may be shorter."""
        raw, more = _raw(left_texts), _raw(right)
        texts = len(left_texts) + len(right)
        need = self._count + texts
        if need > len(self._hashes):
            capacity = max(need, 2 * len(self._hashes))
            self._hashes = _grown(self._hashes, capacity)
            self._offsets = _grown(self._offsets, capacity + 1)
        need = int(self._offsets[self._count]) + int(raw[0][-1] - raw[0][0] + more[0][-1] - more[0][0])
        if need > len(self._bytes):
            self._bytes = _grown(self._bytes, max(need, len(self._bytes) * 3 // 2))
        slots = len(self._slots)
        while slots < 2 * (self._count + texts):
            slots *= 2
        if slots > len(self._slots):
            self._slots = np.zeros(slots, np.uint64)
            _place(self._slots, self._hashes, self._count)
        state = self._slots, self._offsets, self._bytes
        columns: list[Any] = []
        for (offsets, data), rows in ((raw, len(left_texts)), (more, len(right))):
            hashed, codes = np.empty(rows, np.uint64), np.empty(rows, np.int32)
            _hash_all(offsets, data, self._seed, hashed)
            _find_all(offsets, data, hashed, *state, codes)
            columns.append((offsets, data, hashed, codes))
        self._count = _take_in_rest(*columns, state, self._hashes, self._count)
        return columns[0][3], columns[1][3]


def _raw(values: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets int64 (n+1,) and the bytes, always read-only: numba treats writable arrays as another type."""
    _, offsets, data = values.buffers()
    positions, letters = np.zeros(1, np.int64), np.empty(0, np.uint8)
    if offsets is not None and len(values):
        positions = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
        letters = np.frombuffer(data, np.uint8) if data is not None else letters
    positions.flags.writeable = letters.flags.writeable = False
    return positions, letters


def _grown(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    grown = np.empty(size, array.dtype)
    grown[: len(array)] = array
    return grown


# A slot is 0 (empty), or a hash's upper half and the number + 1; the half hash avoids most text comparisons.
# Each pass over a batch does little per row, so that the memory accesses of many rows overlap.


@kernel
def _hash_all(offsets, data, seed, hashed):
    """FNV-1a with a seed, mixed at the end so that all bits depend on all."""
    for i in range(len(hashed)):
        value = np.uint64(0xCBF29CE484222325) ^ seed
        for at in range(offsets[i], offsets[i + 1]):
            value = (value ^ np.uint64(data[at])) * _PRIME
        value ^= value >> np.uint64(32)
        value *= np.uint64(0x9E3779B97F4A7C15)
        hashed[i] = value ^ (value >> np.uint64(29))


@kernel
def _find_all(offsets, data, hashed, slots, offsets_of, texts, codes):
    """The number of each text found in its first slot; -1 for texts that need a longer search."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(codes)):
        entry = slots[hashed[i] & mask]
        fits = entry != 0 and (entry ^ hashed[i]) >> np.uint64(32) == 0
        codes[i] = np.int32(entry & _LOW) - 1 if fits else -1
    for i in range(len(codes)):
        if codes[i] >= 0 and not _same(data, offsets[i], offsets[i + 1], texts, offsets_of, codes[i]):
            codes[i] = -1


@helper
def _same(data, begin, end, texts, offsets_of, code):
    start = offsets_of[code]
    if offsets_of[code + 1] - start != end - begin:
        return False
    for i in range(end - begin):  # noqa: SIM110 - compiled
        if texts[start + i] != data[begin + i]:
            return False
    return True


@helper
def _number(data, begin, end, code, slots, offsets_of, texts, hashes, count):
    """The number of the text data[begin:end]; a new text is stored and gets the number `count`."""
    mask = np.uint64(len(slots) - 1)
    at = code & mask
    while slots[at] != 0:
        if (slots[at] ^ code) >> np.uint64(32) == 0:
            number = np.int32(slots[at] & _LOW) - 1
            if _same(data, begin, end, texts, offsets_of, number):
                return number
        at = (at + np.uint64(1)) & mask
    slots[at] = (code & ~_LOW) | np.uint64(count + 1)
    hashes[count] = code
    start = offsets_of[count]
    for i in range(end - begin):
        texts[start + i] = data[begin + i]
    offsets_of[count + 1] = start + end - begin
    return count


@kernel
def _take_in_rest(column, partner, state, hashes, count):
    """Assign numbers to the texts not found yet, of both columns in turn; returns the new number of distinct texts."""
    offsets, data, hashed, codes = column
    more_offsets, more_data, more_hashed, more = partner
    slots, offsets_of, texts = state
    for i in range(len(codes)):
        if codes[i] < 0:
            begin, end = offsets[i], offsets[i + 1]
            codes[i] = _number(data, begin, end, hashed[i], slots, offsets_of, texts, hashes, count)
            count = max(count, codes[i] + 1)
        if i < len(more) and more[i] < 0:
            begin, end = more_offsets[i], more_offsets[i + 1]
            more[i] = _number(more_data, begin, end, more_hashed[i], slots, offsets_of, texts, hashes, count)
            count = max(count, more[i] + 1)
    return count


@kernel
def _place(slots, hashes, count):
    """Insert all interned texts into a new hash table."""
    mask = np.uint64(len(slots) - 1)
    for number in range(count):
        at = hashes[number] & mask
        while slots[at] != 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = (hashes[number] & ~_LOW) | np.uint64(number + 1)


@kernel
def k_core(indptr, indices, k):
    """The nodes of the k-core, the largest subgraph in which each node has at least k neighbours; bool (n,)."""
    n = len(indptr) - 1
    degree = np.empty(n, np.int64)
    keep = np.ones(n, np.bool_)
    stack = np.empty(n, np.int32)
    top = 0
    for node in range(n):
        degree[node] = indptr[node + 1] - indptr[node]
        if degree[node] < k:
            keep[node] = False
            stack[top] = node
            top += 1
    while top > 0:
        top -= 1
        node = stack[top]
        for at in range(indptr[node], indptr[node + 1]):
            neighbours = indices[at]
            degree[neighbours] -= 1
            if keep[neighbours] and degree[neighbours] < k:
                keep[neighbours] = False
                stack[top] = neighbours
                top += 1
    return keep
