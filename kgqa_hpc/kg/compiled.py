"""Compiling the loops over nodes and edges with numba; the machine code is kept on the disk where there is room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(function: Callable[..., Any]) -> Any:
    """The function compiled on its first call; it runs without the interpreter lock."""
    try:
        return numba.njit(nogil=True, cache=True, boundscheck=False)(function)
    except RuntimeError:  # no writable place for the machine code: compiled again in each process
        return numba.njit(nogil=True, boundscheck=False)(function)
