"""From a knowledge graph to a judged, traceable question-answer dataset. See docs/architecture.md.

For notebooks: `kgqa_hpc.count(graph)` and `kgqa_hpc.sample(graph, per_shape, seed)`, see docs/python.md. What
they need is imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

# name -> the module that holds it
_LAZY = {
    "count": "kgqa_hpc.graphlets.from_libraries",
    "sample": "kgqa_hpc.graphlets.from_libraries",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
