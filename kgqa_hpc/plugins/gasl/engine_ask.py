"""Answers of an engine to a script's prompts, in batches of the engine's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from kgqa_hpc.engines.config import parse_engine
from kgqa_hpc.engines.engine import EngineSettings, Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.registry import ENGINES, Engine
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.plugins.gasl.model import Ask, Prompt
from kgqa_hpc.plugins.gasl.values import to_json
from kgqa_hpc.settings import problems_of
from kgqa_hpc.store.yaml_file import load_yaml
from kgqa_hpc.text import bounded_json

# Largest number of characters of an item or variable in a prompt; more may not fit into the context.
MAX_SHOWN = 8000
MAX_TOKENS = 500

_MEMBER = {"PROCESS": "result", "CLASSIFY": "category", "GENERATE": "text"}
_TASK = {
    "PROCESS": "Apply the instruction to the item. Answer with the result alone.",
    "CLASSIFY": "Put the item into one category, as the instruction says. Answer with the category alone.",
    "GENERATE": "Write a text of the kind that is asked for from the data. Use nothing but the data.",
}


@contextmanager
def asking(path: Path) -> Iterator[Ask]:
    """An `ask` for the engine that a YAML file configures: the keys of a configuration's `engine:` section,
    or a whole configuration. The engine is closed at the end.

    Raises InputError, ConfigError, or EngineConfigError when it cannot start.
    """
    settings = _settings(path)
    engine: Engine = ENGINES.get(settings.kind)(settings)
    try:
        yield ask_of(engine)
    finally:
        engine.close()


def ask_of(engine: Engine) -> Ask:
    """The function that asks a started engine. An answer that fails or does not parse is None."""

    def ask(prompts: Sequence[Prompt]) -> Sequence[Any]:
        members = {str(number): _MEMBER[prompt.verb] for number, prompt in enumerate(prompts)}
        requests = [_request(str(number), prompt) for number, prompt in enumerate(prompts)]
        answers: list[Any] = [None] * len(prompts)
        for response in engine.generate(Mailbox.holding(requests)):
            answers[int(response.id)] = _answer(response, members[response.id])
        return answers

    return ask


def _settings(path: Path) -> EngineSettings:
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
    member = _MEMBER[prompt.verb]
    schema = {
        "type": "object",
        "properties": {member: {"type": "string"}},
        "required": [member],
        "additionalProperties": False,
    }
    # The part common to all items of a command comes first, for the engine's prefix cache.
    system = f'{_TASK[prompt.verb]} Answer in JSON: {{"{member}": "…"}}'
    content = to_json(prompt.content).decode("utf-8")[:MAX_SHOWN]
    kind = f"Kind: {prompt.kind}\n" if prompt.kind else ""
    user = f"Instruction: {prompt.instruction}\n{kind}\nData:\n{content}"
    messages = ({"role": "system", "content": system}, {"role": "user", "content": user})
    return Request(request_id, messages, MAX_TOKENS, schema=schema)


def _answer(response: Response, member: str) -> Any:
    if response.finish != "stop":
        return None
    try:
        document = bounded_json.loads(response.text)
    except orjson.JSONDecodeError:
        return None
    return document.get(member) if isinstance(document, dict) else None
