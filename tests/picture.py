"""One picture of a sample for all runs of a process: drawing takes 0.4 s. tests/graphlets/test_sample.py tests it."""

import sys
from typing import Any


def draw_once() -> None:
    """Keep the first picture, from when the module that draws it was imported."""
    module: Any = sys.modules.get("kgqa_hpc.graphlets.sample")
    if module is None or hasattr(module, "picture_of_first"):
        return
    draw, pictures = module.shapes_png, []

    def first(drawn: Any) -> bytes:
        if not pictures:
            pictures.append(draw(drawn))
        return bytes(pictures[0])

    module.picture_of_first = module.shapes_png = first
