"""The verbs of graph scripts: run one, or only check how it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kgqa_hpc.cli.app import AsJson, print_json, say
from kgqa_hpc.terminal import note

if TYPE_CHECKING:
    from kgqa_hpc.plugins.gasl.execute import Result

gasl = typer.Typer(
    help="Graph scripts: find, count, join and rank nodes and edges of a graph.", no_args_is_help=True
)

ScriptFile = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A graph script or a plan in JSON.")]
MaybePath = Path | None


@gasl.command()
def run(
    script: ScriptFile,
    graph: Annotated[
        MaybePath, typer.Option(metavar="RUN", help="Run folder whose graph the script reads.")
    ] = None,
    nodes: Annotated[
        MaybePath, typer.Option(help="CSV with id,name,type and properties (.gz allowed).")
    ] = None,
    edges: Annotated[
        MaybePath, typer.Option(help="CSV with source_id,target_id,type and properties (.gz allowed).")
    ] = None,
    engine: Annotated[
        MaybePath,
        typer.Option(help="YAML file with the settings of the engine for PROCESS, CLASSIFY and GENERATE."),
    ] = None,
    answers: Annotated[
        MaybePath, typer.Option(help="JSON file with answers that replace the engine's.")
    ] = None,
    state: Annotated[
        MaybePath, typer.Option(help="State file, written after each command; an existing one is continued.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a graph script on the graph of a run or on two CSV files."""
    from kgqa_hpc.plugins.gasl import session

    result, code = session.run(
        script, graph=graph, nodes=nodes, edges=edges, engine=engine, answers=answers, state=state
    )
    if as_json:
        _print_line(result.to_dict())
    else:
        _print_result(result)
    raise typer.Exit(code)


@gasl.command()
def check(script: ScriptFile, as_json: AsJson = False) -> None:
    """Parse a graph script and list the first error of every faulty command."""
    from kgqa_hpc.plugins.gasl import session

    problems = session.check(script)
    status = "error" if problems else "success"
    if as_json:
        _print_line({"status": status, "errors": [problem.report() for problem in problems]})
    else:
        for problem in problems:
            say(f"{script}: {problem}")
        print(status)
    raise typer.Exit(2 if problems else 0)


def _print_line(document: dict[str, Any]) -> None:
    # One line: indenting a result of 256 MiB takes minutes.
    print_json(document, indent=None)


def _print_result(result: Result) -> None:
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
