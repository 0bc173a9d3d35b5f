"""The interface between a script and a model: a function from prompts to answers.

PROCESS and CLASSIFY make one prompt per item, GENERATE one prompt in all. The caller supplies the function: a
file of answers (`Answers`), an engine (session.py), or a step of a run, which raises in order to be called again
later; a command whose function raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import InputError, ScriptError
from kgqa_hpc.text.opener import read_bytes

# Number of prompts in a call, unless the script gives it.
BATCH = 1000
_EVERY_OTHER = "*"


@dataclass(frozen=True)
class Prompt:
    """One question. `verb` is PROCESS, CLASSIFY or GENERATE, `instruction` the script's text about it.

    `key` is the item's id or its place in the list, `content` the item, for GENERATE the whole variable.
    `kind` is the word after GENERATE.
    """

    verb: str
    instruction: str
    key: str
    content: Any
    kind: str = ""


# Returns one answer per prompt, in order; None is no answer. Raises ScriptError `model`.
Ask = Callable[[Sequence[Prompt]], Sequence[Any]]


def nobody(prompts: Sequence[Prompt]) -> Sequence[Any]:
    """The function without a model: raises ScriptError `model`."""
    raise ScriptError("model", "no model and no answers were given: --engine FILE or --answers FILE")


@dataclass(frozen=True)
class Answers:
    """Answers from a file: {instruction: {item: answer, "*": answer of every other item}}."""

    entries: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Answers:
        """Raises InputError when the file is not there or not of this shape."""
        try:
            document = orjson.loads(read_bytes(path))
        except OSError as problem:
            raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
        except orjson.JSONDecodeError as problem:
            raise InputError(f"{path}: is not JSON: {problem}") from None
        if not isinstance(document, dict) or not all(isinstance(entry, dict) for entry in document.values()):
            raise InputError(f"{path}: must be an object {{instruction: {{item: answer}}}}")
        return cls(document)

    def __call__(self, prompts: Sequence[Prompt]) -> Sequence[Any]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Any:
        instruction = prompt.kind if prompt.verb == "GENERATE" else prompt.instruction
        entry = self.entries.get(instruction, {})
        for key in (prompt.key, _EVERY_OTHER):
            if key in entry:
                return entry[key]
        description = f"{instruction[:100]!r}, item {prompt.key[:100]!r}"
        raise ScriptError("model", f"the file of answers has none for {description}")
