"""Runs of scripts from files, for the command line, and the engine that answers their prompts.

An engine is asked in batches of its size.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from kgqa_hpc.engines.engine import EngineSettings, Request, Response
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.registry import ENGINES, Engine, parse_engine
from kgqa_hpc.errors import ConfigError, InputError, ScriptError
from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.plugins.gasl.execute import Result, State, execute, load_state, refused, save_state
from kgqa_hpc.plugins.gasl.graph_files import from_run, read_tables
from kgqa_hpc.plugins.gasl.model import Answers, read_input
from kgqa_hpc.plugins.gasl.parser import parse, read_script
from kgqa_hpc.plugins.gasl.values import to_json
from kgqa_hpc.plugins.gasl.world import Model, Prompt, nobody
from kgqa_hpc.settings import problems_of
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.store.yaml_file import load_yaml
from kgqa_hpc.text import bounded_json

# Largest number of characters of an item or variable in a prompt; more may not fit into the context.
_MAX_SHOWN = 8000
_MAX_TOKENS = 500

_MEMBER = {"PROCESS": "result", "CLASSIFY": "category", "GENERATE": "text"}
_TASK = {
    "PROCESS": "Apply the instruction to the item. Answer with the result alone.",
    "CLASSIFY": "Put the item into one category, as the instruction says. Answer with the category alone.",
    "GENERATE": "Write a text of the kind that is asked for from the data. Use nothing but the data.",
}


def check(script: Path) -> list[ScriptError]:
    """The first error of every faulty command. Raises InputError when the file cannot be read."""
    return read_script(read_input(script))[1]


def run(
    script: Path,
    *,
    graph: Path | None = None,
    nodes: Path | None = None,
    edges: Path | None = None,
    engine: Path | None = None,
    answers: Path | None = None,
    state: Path | None = None,
) -> tuple[Result, int]:
    """The result of a script and the exit code: 0, 1 after an error during execution, 2 if it cannot be read.

    Raises InputError for options that do not go together and files that cannot be read.
    """
    if (nodes is None) != (edges is None) or (graph is None) == (nodes is None):
        raise InputError("which graph?", "give --graph RUN, or both --nodes FILE and --edges FILE")
    if engine is not None and answers is not None:
        raise InputError("--engine and --answers do not go together", "give one of them")
    try:
        commands = parse(read_input(script))
    except ScriptError as problem:
        return refused(problem), 2
    if graph is None:
        assert nodes is not None
        assert edges is not None
        property_graph = read_tables(nodes, edges)
    else:
        path = graph / "kg.h5"
        if not path.exists():
            raise InputError(f"{path}: no such file", f"import the graph first: kgqa import {graph}")
        property_graph = from_run(read_graph(path), sha256_of(path))
    initial = State(commands.digest, property_graph.digest)
    if state:
        initial = load_state(state, commands.digest, property_graph.digest)
    with ExitStack() as stack:
        model: Model = Answers.read(answers) if answers else nobody
        if engine:
            model = stack.enter_context(asking(engine))
        result = execute(
            commands, property_graph, initial, model, partial(save_state, state) if state else None
        )
    return result, 1 if result.status == "error" else 0


@contextmanager
def asking(path: Path) -> Iterator[Model]:
    """An `ask` for the engine that a YAML file configures: the keys of a configuration's `engine:` section,
    or a whole configuration. The engine is closed at the end.

    Raises InputError, ConfigError, or EngineConfigError when it cannot start.
    """
    settings = _settings(path)
    engine: Engine = ENGINES.get(settings.kind)(settings)

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
    content = to_json(prompt.content).decode("utf-8")[:_MAX_SHOWN]
    kind = f"Kind: {prompt.kind}\n" if prompt.kind else ""
    user = f"Instruction: {prompt.instruction}\n{kind}\nData:\n{content}"
    messages = ({"role": "system", "content": system}, {"role": "user", "content": user})
    return Request(request_id, messages, _MAX_TOKENS, schema=schema)


def _answer(response: Response, member: str) -> Any:
    if response.finish != "stop":
        return None
    try:
        document = bounded_json.loads(response.text)
    except orjson.JSONDecodeError:
        return None
    return document.get(member) if isinstance(document, dict) else None
