"""The verbs of graph scripts: run one, or only check how it is written."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kgqa_hpc.cli.app import AsJson, print_json, say
from kgqa_hpc.errors import InputError, ScriptError
from kgqa_hpc.terminal import note

if TYPE_CHECKING:
    from kgqa_hpc.plugins.gasl.execute import Result
    from kgqa_hpc.plugins.gasl.world import Model

gasl = typer.Typer(
    help="Graph scripts: find, count, join and rank nodes and edges of a graph.", no_args_is_help=True
)

ScriptFile = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A graph script or a plan in JSON.")]
MaybePath = Path | None


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
        say(f"{name} = {json.dumps(value, ensure_ascii=True)}")
    if result.error:
        position = f"line {result.error['line']}, column {result.error['column']}"
        say(f"error: {position}: {result.error['kind']}: {result.error['message']}", aside=True)
    print(result.status)
    raise typer.Exit(code)


@gasl.command()
def check(script: ScriptFile, as_json: AsJson = False) -> None:
    """Parse a graph script and list the first error of each command."""
    from kgqa_hpc.plugins.gasl.model import read_input
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
    from kgqa_hpc.plugins.gasl.execute import State, execute, load_state, refused, save_state
    from kgqa_hpc.plugins.gasl.graph_files import from_run, read_tables
    from kgqa_hpc.plugins.gasl.model import Answers, asking, read_input
    from kgqa_hpc.plugins.gasl.parser import parse
    from kgqa_hpc.plugins.gasl.world import nobody
    from kgqa_hpc.store.canonical import sha256_of

    if (nodes is None) != (edges is None) or (graph is None) == (nodes is None):
        raise InputError("which graph?", "give --graph RUN, or both --nodes FILE and --edges FILE")
    if engine is not None and answers is not None:
        raise InputError("--engine and --answers do not go together", "give one of them")
    try:
        commands = parse(read_input(script))
    except ScriptError as problem:
        return refused(problem), 2
    if nodes is not None and edges is not None:
        property_graph = read_tables(nodes, edges)
    elif graph is not None:
        path = graph / "kg.h5"
        if not path.exists():
            raise InputError(f"{path}: no such file", f"import the graph first: kgqa import {graph}")
        property_graph = from_run(read_graph(path), sha256_of(path))
    initial = State(commands.digest, property_graph.digest)
    if state:
        initial = load_state(state, commands.digest, property_graph.digest)
    with ExitStack() as stack:
        model: Model = Answers.read(answers) if answers else nobody
        model = stack.enter_context(asking(engine)) if engine else model
        on_step = partial(save_state, state) if state else None
        result = execute(commands, property_graph, initial, model, on_step)
    return result, 1 if result.status == "error" else 0
