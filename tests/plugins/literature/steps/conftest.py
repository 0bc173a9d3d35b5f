"""Items, answers and chains."""

from tests.steps.conftest import chain, item, pair_text, stop, verdict_text

__all__ = ["chain", "item", "pair_text", "stop", "verdict_text"]
