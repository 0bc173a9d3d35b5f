"""From a knowledge graph to a judged, traceable question-answer dataset. See docs/architecture.md.

For notebooks: `kgqa_hpc.open(RUN)`, `kgqa_hpc.count(graph)` and `kgqa_hpc.sample(graph, per_shape, seed)`, see
docs/python.md. What they need is imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.2.0"

# name -> module and attribute that hold it
_LAZY = {
    "count": ("kgqa_hpc.graphlets.from_libraries", "count"),
    "sample": ("kgqa_hpc.graphlets.from_libraries", "sample"),
    "open": ("kgqa_hpc.notebook", "OpenRun"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
