"""JSON from outside: its nesting is bounded before it is parsed.

orjson reads 1,024 levels; Python cannot print, copy or compare so many without a RecursionError. What servers and
files really hold has fewer than ten.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import orjson

DEEPEST = 64  # brackets within brackets
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEP = [1 if byte in b"[{" else -1 for byte in range(256)]


def loads(data: bytes | str) -> Any:
    """The value. Raises orjson.JSONDecodeError, also for more than DEEPEST levels."""
    if too_deep(data if isinstance(data, bytes) else data.encode("utf-8", "replace")):
        raise orjson.JSONDecodeError(f"nested more than {DEEPEST} levels deep", "", 0)
    return orjson.loads(data)


def too_deep(data: bytes) -> bool:
    """Whether brackets outside of strings stand deeper than DEEPEST. Linear in the length."""
    if data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    brackets = _STRING.sub(b"", data).translate(None, _NO_BRACKETS)
    return any(depth > DEEPEST for depth in accumulate(map(_STEP.__getitem__, brackets)))
