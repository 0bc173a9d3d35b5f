"""Numbers drawn from content: the same bytes always give the same sequence, on every machine and version."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """An endless stream of small numbers that follows from `key` (at most 64 bytes) alone."""

    __slots__ = ("_key", "_round", "_state")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._round = 0
        self._state = 0

    def below(self, limit: int) -> int:
        """A number in [0, limit), limit <= 2**32; the bias is below 2**-96."""
        if self._state < 1 << 128:
            fresh = blake2b(self._round.to_bytes(4, "little"), key=self._key, digest_size=64).digest()
            self._state = int.from_bytes(fresh, "little") | 1 << 512
            self._round += 1
        self._state, number = divmod(self._state, limit)
        return number

    def unit(self) -> float:
        """A number in [0, 1)."""
        return self.below(1 << 32) / (1 << 32)

    def bell(self, low: int, high: int) -> int:
        """A whole number in [low, high], the middle likelier than the ends (sum of three)."""
        number = self.below(1 << 30)
        thirds = (number & 1023) + (number >> 10 & 1023) + (number >> 20)  # 0 … 3069
        return low + (high - low + 1) * thirds // 3070

    def choose(self, options: Sequence[T]) -> T:
        """One of `options`."""
        return options[self.below(len(options))]
