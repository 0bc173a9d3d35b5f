"""Connected components and k-cores of the simple undirected graph, in compiled code: linear in its edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no writable place for the machine code: compiled again in each process
        return numba.njit(nogil=True)(function)


def component_sizes(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """The component of each node, int32 (n,), numbered by their first node, and the size of each."""
    component: npt.NDArray[np.int32] = _components(indptr, indices)
    return component, np.bincount(component, minlength=0).astype(np.int64)


def largest_component(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32]) -> Mask:
    """The nodes of the largest component, bool (n,); of two equally large the one with the first node."""
    component, sizes = component_sizes(indptr, indices)
    return component == np.argmax(sizes) if len(sizes) else np.zeros(0, dtype=bool)


def k_core(indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], k: int) -> Mask:
    """The nodes of the largest part in which each has at least k neighbours, bool (n,)."""
    core: Mask = _core(indptr, indices, k)
    return core


@_compiled
def _components(indptr, indices):
    n = len(indptr) - 1
    component = np.full(n, -1, np.int32)
    stack = np.empty(n, np.int32)
    number = 0
    for root in range(n):
        if component[root] >= 0:
            continue
        component[root] = number
        stack[0] = root
        top = 1
        while top > 0:
            top -= 1
            node = stack[top]
            for at in range(indptr[node], indptr[node + 1]):
                other = indices[at]
                if component[other] < 0:
                    component[other] = number
                    stack[top] = other
                    top += 1
        number += 1
    return component


@_compiled
def _core(indptr, indices, k):
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
            other = indices[at]
            degree[other] -= 1
            if keep[other] and degree[other] < k:
                keep[other] = False
                stack[top] = other
                top += 1
    return keep
