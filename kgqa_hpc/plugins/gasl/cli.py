"""Commands of graph scripts: run a script, or only parse it. A file of answers or an engine answers its prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from kgqa_hpc.cli.app import AsJson, print_json, say
from kgqa_hpc.errors import ConfigError, InputError, ScriptError
from kgqa_hpc.plugins.gasl.language import to_json
from kgqa_hpc.terminal import note
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import parse_json, read_bytes

if TYPE_CHECKING:
    from kgqa_hpc.engines.engine import Request
    from kgqa_hpc.plugins.gasl.execute import Result
    from kgqa_hpc.plugins.gasl.world import Model, Prompt

gasl = typer.Typer(
    help="Graph scripts: find, count, join and rank nodes and edges of a graph.", no_args_is_help=True
)

ScriptFile = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A graph script or a plan in JSON.")]
MaybePath = Path | None
_MOST_PRINTED = 1000  # maximum characters printed of a variable


@gasl.command()
def run(
    script: ScriptFile,
    graph: Annotated[MaybePath, typer.Option(metavar="RUN", help="Run folder with the graph.")] = None,
    nodes: Annotated[MaybePath, typer.Option(help="CSV with id,name,type and properties, or .gz.")] = None,
    edges: Annotated[
        MaybePath, typer.Option(help="CSV with source_id,target_id,type and properties, or .gz.")
    ] = None,
    engine: Annotated[
        MaybePath, typer.Option(help="YAML file of the engine for PROCESS, CLASSIFY and GENERATE.")
    ] = None,
    answers: Annotated[MaybePath, typer.Option(help="JSON file of answers instead of an engine.")] = None,
    state: Annotated[
        MaybePath, typer.Option(help="State file to write after each command and resume.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a graph script on a graph."""
    files = {"graph": graph, "nodes": nodes, "edges": edges}
    result, code = run_script(script, **files, engine=engine, answers=answers, state=state)
    if as_json:
        print_json(result.to_dict(), indent=None)  # indenting a result of 256 MiB takes minutes
        raise typer.Exit(code)
    for step in result.steps:
        count = "" if step["count"] is None else f" {step['count']:,}"
        name = f" {step['variable']}" if step["variable"] else ""
        note(f"{step['line']}:{step['column']} {step['status']}{name}{count}")
    for name, value in result.variables.items():
        text = json.dumps(value)
        ending = " … (whole with --json)" if len(text) > _MOST_PRINTED else ""
        say(f"{name} = {text[:_MOST_PRINTED]}{ending}")
    if result.error:
        position = f"line {result.error['line']}, column {result.error['column']}"
        nearest = f"; did you mean {result.error['nearest']}?" if result.error["nearest"] else ""
        say(f"error: {position}: {result.error['kind']}: {result.error['message']}{nearest}", aside=True)
    print(result.status)
    raise typer.Exit(code)


@gasl.command()
def check(script: ScriptFile, as_json: AsJson = False) -> None:
    """Parse a graph script and list the first error of each command."""
    from kgqa_hpc.plugins.gasl.parser import read_script

    problems = read_script(read_input(script))[1]
    status = "error" if problems else "success"
    if as_json:
        print_json({"status": status, "errors": [problem.report() for problem in problems]}, indent=None)
    else:
        for problem in problems:
            say(f"{script}: {problem}")
        print(status)
    raise typer.Exit(2 if problems else 0)


def run_script(
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
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.plugins.gasl.execute import Result, execute, load_state
    from kgqa_hpc.plugins.gasl.graph import from_run, read_tables
    from kgqa_hpc.plugins.gasl.parser import parse
    from kgqa_hpc.plugins.gasl.world import nobody
    from kgqa_hpc.store.atomic import write_file
    from kgqa_hpc.store.canonical import sha256_of

    if (nodes is None) != (edges is None) or (graph is None) == (nodes is None):
        raise InputError("which graph?", "give --graph RUN, or both --nodes FILE and --edges FILE")
    if engine is not None and answers is not None:
        raise InputError("--engine and --answers do not go together", "give one of them")
    try:
        commands = parse(read_input(script))
    except ScriptError as problem:
        return Result("error", error=problem.report()), 2
    if nodes is not None and edges is not None:
        property_graph = read_tables(nodes, edges)
    elif graph is not None:
        path = graph / "kg.h5"
        if not path.exists():
            cure = f"import the graph first: kgqa import {shell_word(graph)}"
            raise InputError(f"{path}: no such file", cure)
        property_graph = from_run(read_graph(path), sha256_of(path))
    initial = load_state(state, commands.digest, property_graph.digest) if state else None
    with ExitStack() as stack:
        model: Model = Answers.read(answers) if answers else nobody
        model = stack.enter_context(asking(engine)) if engine else model
        save = (lambda current: write_file(state, to_json(current.to_dict()))) if state else None
        result = execute(commands, property_graph, initial, model, save)
    return result, 1 if result.status == "error" else 0


def read_input(path: Path) -> bytes:
    """The bytes of a file that the user named. Raises InputError when it cannot be read."""
    try:
        return read_bytes(path)
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None


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
                raise ScriptError("model", f"the file of answers has no answer for {description}")
            answers.append(entry[key])
        return answers


# Largest number of characters of an item or variable in a prompt; more may not fit into the context.
_MAX_SHOWN = 8000
_MAX_TOKENS = 500

_TASK = {
    "PROCESS": "Apply the instruction to the item. Answer with the result alone.",
    "CLASSIFY": "Put the item into one category, as the instruction says. Answer with the category alone.",
    "GENERATE": "Write a text of the kind that is asked for from the data. Use nothing but the data.",
}


@contextmanager
def asking(path: Path) -> Iterator[Model]:
    """The function `ask` for the engine that a YAML file configures: the keys of a configuration's `engine:` section,
    or a whole configuration. The engine is closed at the end.

    Raises ConfigError, or EngineConfigError when it cannot start.
    """
    from pydantic import ValidationError

    from kgqa_hpc.config.files import plain_config
    from kgqa_hpc.engines import ENGINES, parse_engine
    from kgqa_hpc.engines.engine import Redactor
    from kgqa_hpc.engines.mailbox import Mailbox
    from kgqa_hpc.plugins.gasl.world import ANSWER_FIELDS
    from kgqa_hpc.settings import problems_of

    document = plain_config(path)
    try:
        settings = parse_engine(document.get("engine", document), path.parent)
    except ValueError as problem:
        entries = problems_of(problem) if isinstance(problem, ValidationError) else ()
        text = "; ".join(f"{'.'.join(map(str, entry.key))}: {entry.text}" for entry in entries)
        raise ConfigError(f"{path}: not the settings of an engine: {text or f'it {problem}'}") from None
    engine, redact = ENGINES.get(settings.kind)(settings), Redactor(settings.secret_names)

    def ask(prompts: Sequence[Prompt]) -> Sequence[Any]:
        """One answer for each prompt; None if the request fails or its answer does not parse."""
        members = [ANSWER_FIELDS[prompt.verb] for prompt in prompts]
        requests = [_request(str(k), prompt, members[k]) for k, prompt in enumerate(prompts)]
        answers: list[Any] = [None] * len(prompts)
        for response in engine.generate(Mailbox.holding(requests)):
            try:
                content = parse_json(redact.text(response.text)) if response.finish == "stop" else None
            except orjson.JSONDecodeError:
                continue
            if isinstance(content, dict):
                answers[int(response.id)] = content.get(members[int(response.id)])
        return answers

    try:
        yield ask
    finally:
        engine.close()


def _request(request_id: str, prompt: Prompt, member: str) -> Request:
    """The request for an answer as a JSON object with one text member."""
    from kgqa_hpc.engines.engine import Request

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
