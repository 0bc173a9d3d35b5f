"""The commands PROCESS, CLASSIFY and GENERATE, and the interface to a model: a function from prompts to answers.

PROCESS and CLASSIFY make one prompt per item and store the answers in the items, GENERATE makes one prompt in all. The
caller supplies the function: a file of answers (`Answers`), an engine (`asking`), or a step of a run, which raises in
order to be called again later; a command whose function raises changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgqa_hpc.errors import ConfigError, InputError, ScriptError
from kgqa_hpc.plugins.gasl.syntax import MAX_NESTING, Ref, Word
from kgqa_hpc.plugins.gasl.values import is_deeper, text_of, to_json
from kgqa_hpc.plugins.gasl.world import Model, Outcome, Prompt, World
from kgqa_hpc.text.streams import parse_json, read_bytes

if TYPE_CHECKING:
    from kgqa_hpc.engines.engine import Request, Response

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
        answers = []
        for prompt in prompts:
            instruction = prompt.kind if prompt.verb == "GENERATE" else prompt.instruction
            entry = self.entries.get(instruction, {})
            key = prompt.key if prompt.key in entry else _EVERY_OTHER
            if key not in entry:
                description = f"{instruction[:100]!r}, item {prompt.key[:100]!r}"
                raise ScriptError("model", f"the file of answers has none for {description}")
            answers.append(entry[key])
        return answers


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


# Largest number of characters of an item or variable in a prompt; more may not fit into the context.
_MAX_SHOWN = 8000
_MAX_TOKENS = 500

_MEMBER = {"PROCESS": "result", "CLASSIFY": "category", "GENERATE": "text"}
_TASK = {
    "PROCESS": "Apply the instruction to the item. Answer with the result alone.",
    "CLASSIFY": "Put the item into one category, as the instruction says. Answer with the category alone.",
    "GENERATE": "Write a text of the kind that is asked for from the data. Use nothing but the data.",
}


@contextmanager
def asking(path: Path) -> Iterator[Model]:
    """An `ask` for the engine that a YAML file configures: the keys of a configuration's `engine:` section,
    or a whole configuration. The engine is closed at the end.

    Raises InputError, ConfigError, or EngineConfigError when it cannot start.
    """
    from kgqa_hpc.engines.mailbox import Mailbox
    from kgqa_hpc.engines.registry import ENGINES

    settings = _settings(path)
    engine = ENGINES.get(settings.kind)(settings)

    def ask(prompts: Sequence[Prompt]) -> Sequence[Any]:
        """One answer for each prompt; None where it fails or does not parse."""
        requests = [_request(str(number), prompt) for number, prompt in enumerate(prompts)]
        answers: list[Any] = [None] * len(prompts)
        for response in engine.generate(Mailbox.holding(requests)):
            number = int(response.id)
            answers[number] = _answer(response, _MEMBER[prompts[number].verb])
        return answers

    try:
        yield ask
    finally:
        engine.close()


def _settings(path: Path) -> Any:
    from pydantic import ValidationError

    from kgqa_hpc.engines.registry import parse_engine
    from kgqa_hpc.settings import problems_of
    from kgqa_hpc.store.yaml_file import load_yaml

    try:
        document = load_yaml(path)
    except FileNotFoundError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
    section = document.get("engine", document) if isinstance(document, dict) else document
    try:
        return parse_engine(section, path.parent)
    except ValidationError as problem:
        lines = [f"{'.'.join(map(str, entry.key))}: {entry.text}" for entry in problems_of(problem)]
        raise ConfigError(f"{path}: not the settings of an engine: {'; '.join(lines)}") from None


def _request(request_id: str, prompt: Prompt) -> Request:
    from kgqa_hpc.engines.engine import Request

    member = _MEMBER[prompt.verb]
    properties = {member: {"type": "string"}}
    closed = {"required": [member], "additionalProperties": False}
    schema = {"type": "object", "properties": properties, **closed}
    # The part common to all items of a command comes first, for the engine's prefix cache.
    system = f'{_TASK[prompt.verb]} Answer in JSON: {{"{member}": "…"}}'
    content = to_json(prompt.content).decode("utf-8")[:_MAX_SHOWN]
    kind = f"Kind: {prompt.kind}\n" if prompt.kind else ""
    user = f"Instruction: {prompt.instruction}\n{kind}\nData:\n{content}"
    messages = ({"role": "system", "content": system}, {"role": "user", "content": user})
    return Request(request_id, messages, _MAX_TOKENS, schema=schema)


def _answer(response: Response, member: str) -> Any:
    if response.finish != "stop":
        return None
    try:
        document = parse_json(response.text)
    except orjson.JSONDecodeError:
        return None
    return document.get(member) if isinstance(document, dict) else None
