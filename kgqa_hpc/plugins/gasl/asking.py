"""The commands PROCESS, CLASSIFY and GENERATE: they make prompts from items and store the answers in the items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Ask, Generate
from kgqa_hpc.plugins.gasl.model import BATCH, Prompt
from kgqa_hpc.plugins.gasl.source import MAX_NESTING
from kgqa_hpc.plugins.gasl.values import is_deeper, text_of
from kgqa_hpc.plugins.gasl.world import Outcome, World

_ADDS = {"PROCESS": "result", "CLASSIFY": "category"}


def ask(command: Ask, world: World, size: int = BATCH) -> Outcome:
    """Each item with the model's answer, asked `size` at a time."""
    items = world.items(command.ref)
    keys = (item.get("id") for item in items)
    prompts = [
        Prompt(command.verb, command.instruction, str(number) if key is None else text_of(key), item)
        for number, (key, item) in enumerate(zip(keys, items, strict=True), 1)
    ]
    batches = (prompts[start : start + size] for start in range(0, len(prompts), size))
    answers = [answer for batch in batches for answer in _ask(world, batch)]
    name = _ADDS[command.verb]
    if name == "category":
        answers = [None if answer is None else text_of(answer) for answer in answers]
    missing = sum(answer is None for answer in answers)
    answered = ({**item, name: answer} for item, answer in zip(items, answers, strict=True))
    return Outcome(answered, partial=missing > 0, notes={"unanswered": missing} if missing else {})


def generate(command: Generate, world: World) -> Outcome:
    """One text from a whole variable."""
    prompt = Prompt("GENERATE", command.text or "", "*", world.value(command.ref), command.kind)
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
