"""From a knowledge graph to a judged, traceable question-answer dataset. See docs/reference/architecture.md.

From Python: `kgqa_hpc.Run`, settings objects (`Csv`, `Graphlets`, `Generate`, `OpenAI` ...), `kgqa_hpc.open(RUN)`,
`@kgqa_hpc.step`, `kgqa_hpc.count(graph)` and `kgqa_hpc.sample(graph, per_shape, seed)`; see docs/guide/python.md. Their
modules are imported at first use.
"""

import importlib
from typing import Any

__version__ = "0.2.0"

# name -> module and attribute that hold it
_LAZY = {
    "Run": ("kgqa_hpc.run", "Run"),
    "count": ("kgqa_hpc.graphlets.count", "count_graphlets"),
    "open": ("kgqa_hpc.run", "Run"),
    "step": ("kgqa_hpc.steps.check", "step"),
    "section": ("kgqa_hpc.registry", "section"),
    "metric": ("kgqa_hpc.registry", "metric"),
    "rule": ("kgqa_hpc.registry", "rule"),
    "Reject": ("kgqa_hpc.steps.item", "Reject"),
    "sample": ("kgqa_hpc.graphlets.sample", "sample_graphlets"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(importlib.import_module(module), attribute)
    if name[:1].isupper():
        settings_objects = importlib.import_module("kgqa_hpc.settings_objects")
        if name in settings_objects.names():
            return settings_objects.factory(name)
        from kgqa_hpc.registry import did_you_mean

        raise AttributeError(f"kgqa_hpc has no {name}{did_you_mean(name, __dir__())}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *importlib.import_module("kgqa_hpc.settings_objects").names()])
