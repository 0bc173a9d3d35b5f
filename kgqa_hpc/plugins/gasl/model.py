"""The commands PROCESS, CLASSIFY and GENERATE, and the interface to a model: a function from prompts to answers.

PROCESS and CLASSIFY make one prompt per item and store the answers in the items, GENERATE makes one prompt in all. The
caller supplies the function: a file of answers (`Answers`), an engine (session.py), or a step of a run, which raises
in order to be called again later; a command whose function raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.errors import InputError, ScriptError
from kgqa_hpc.plugins.gasl.source import MAX_NESTING
from kgqa_hpc.plugins.gasl.syntax import Ref, Word
from kgqa_hpc.plugins.gasl.values import is_deeper, text_of
from kgqa_hpc.plugins.gasl.world import Outcome, Prompt, World
from kgqa_hpc.text.opener import read_bytes

# Number of prompts in a call, unless the script gives it.
BATCH = 1000
_EVERY_OTHER = "*"


@dataclass(frozen=True)
class Answers:
    """Answers from a file: {instruction: {item: answer, "*": answer of every other item}}."""

    entries: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Answers:
        """Raises InputError when the file is not there or not of this shape."""
        try:
            document = orjson.loads(read_input(path))
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


def read_input(path: Path) -> bytes:
    """The bytes of a file that the user named. Raises InputError when it cannot be read."""
    try:
        return read_bytes(path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None


_ADDS = {"PROCESS": "result", "CLASSIFY": "category"}


def ask(world: World, verb: str, ref: Ref, instruction: str, size: int = BATCH) -> Outcome:
    """Each item with the model's answer, asked `size` at a time."""
    items = world.items(ref)
    keys = (item.get("id") for item in items)
    prompts = [
        Prompt(verb, instruction, str(number) if key is None else text_of(key), item)
        for number, (key, item) in enumerate(zip(keys, items, strict=True), 1)
    ]
    batches = (prompts[start : start + size] for start in range(0, len(prompts), size))
    answers = [answer for batch in batches for answer in _ask(world, batch)]
    name = _ADDS[verb]
    if name == "category":
        answers = [None if answer is None else text_of(answer) for answer in answers]
    missing = sum(answer is None for answer in answers)
    answered = ({**item, name: answer} for item, answer in zip(items, answers, strict=True))
    return Outcome(answered, partial=missing > 0, notes={"unanswered": missing} if missing else {})


def generate(world: World, kind: Word, ref: Ref, text: str | None) -> Outcome:
    """One text from a whole variable."""
    prompt = Prompt("GENERATE", text or "", "*", world.value(ref), kind.text)
    answer = _ask(world, [prompt])[0]
    if answer is None:
        return Outcome(None, partial=True, notes={"unanswered": 1})
    return Outcome(text_of(answer))


def _ask(world: World, prompts: Sequence[Prompt]) -> list[Any]:
    answers = list(world.ask(prompts))
    if len(answers) != len(prompts):
        raise ScriptError("model", f"{len(answers)} answers for {len(prompts)} prompts")
    # An answer that is nested too deep for a script counts as no answer.
    return [None if is_deeper(answer, MAX_NESTING) else answer for answer in answers]
