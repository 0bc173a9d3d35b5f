"""Thinking models: the marks around a thought, and the sampling that the makers of a model family recommend.

Thinking models repeat themselves under greedy decoding, so the family's temperature replaces a prompt's temperature
of 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kgqa_hpc.engines.engine import Generation

# Default largest number of tokens of a thought; thoughts of Qwen3 take 1,000 to 10,000.
THINKING_TOKENS = 8192


class Thought(NamedTuple):
    """The marks around a model's thought, and the text between thought and answer."""

    begin: str
    end: str
    then: str

    def split(self, text: str) -> tuple[str, str]:
        """Split a text into thought and answer; a thought without an end counts as answer."""
        thought, mark, answer = text.partition(self.end)
        if not mark:
            return "", text
        return thought.removeprefix(self.begin).strip(), answer.removeprefix(self.then)

    def after(self, prompt: str) -> Thought:
        """The marks of an answer to `prompt`, without the opening mark if the chat template has written it already."""
        return self._replace(begin="") if prompt.rstrip().endswith(self.begin) else self


# From the models' chat templates: <think> of Qwen3, DeepSeek-R1 and many more; harmony of gpt-oss.
THINK = Thought("<think>", "</think>", "\n\n")
HARMONY = Thought(
    "<|channel|>analysis<|message|>", "<|end|>", "<|start|>assistant<|channel|>final<|message|>"
)
THOUGHTS = {"qwen3": THINK, "gpt-oss": HARMONY}


# Sampling that the makers of a family recommend, for thinking (True) or not; from the model cards of Qwen3, gpt-oss,
# DeepSeek-R1.
_FAMILIES: dict[str, dict[bool, dict[str, float]]] = {
    r"qwen[-_]?3|qwq": {
        True: {"temperature": 0.6, "top_p": 0.95, "top_k": 20},
        False: {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
    },
    "gpt-oss": {True: {"temperature": 1.0, "top_p": 1.0}},
    "deepseek-r1": {True: {"temperature": 0.6, "top_p": 0.95}},
}


def sampling_of(
    model: str, thinks: bool | None, generation: Generation | None
) -> tuple[float, Mapping[str, Any]]:
    """Temperature in place of a prompt's 0, and other parameters: the configured ones, otherwise the family's.

    The family's are used only if the configuration turns thinking on or off (`thinks` is not None).
    """
    matches = (advice for name, advice in _FAMILIES.items() if re.search(name, model, re.IGNORECASE))
    values: dict[str, Any] = {} if thinks is None else {**next(matches, {}).get(thinks, {})}
    temperature = values.pop("temperature", 0.0)
    if generation is None:
        return temperature, values
    if generation.temperature is not None:
        temperature = generation.temperature
    return temperature, values | generation.values()


def recorded_sampling(model: str, thinks: bool | None, generation: Generation | None) -> dict[str, Any]:
    """Parameters that the family's recommendation adds to the configuration, for the provenance."""
    temperature, values = sampling_of(model, thinks, generation)
    added = {key: value for key, value in values.items() if not generation or key not in generation.values()}
    return {"temperature": temperature, **added} if added else {}
