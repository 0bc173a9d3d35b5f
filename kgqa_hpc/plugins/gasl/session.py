"""Runs of scripts from files, for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kgqa_hpc.errors import InputError, ScriptError
from kgqa_hpc.plugins.gasl import state as states
from kgqa_hpc.plugins.gasl.execute import Result, execute, refused
from kgqa_hpc.plugins.gasl.graph import PropertyGraph
from kgqa_hpc.plugins.gasl.model import Answers, Ask, nobody
from kgqa_hpc.plugins.gasl.parser import parse, read_script
from kgqa_hpc.text.opener import read_bytes


def check(script: Path) -> list[ScriptError]:
    """The first error of every faulty command. Raises InputError when the file cannot be read."""
    return read_script(_read(script))[1]


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
    _check_options(graph, nodes, edges, engine, answers)
    try:
        commands = parse(_read(script))
    except ScriptError as problem:
        return refused(problem), 2
    property_graph = _graph(graph, nodes, edges)
    earlier = (
        states.load(state, commands.digest, property_graph.digest)
        if state
        else states.State(commands.digest, property_graph.digest)
    )
    with _asking(engine, answers) as ask:
        result = execute(
            commands, property_graph, earlier, ask, partial(states.save, state) if state else None
        )
    return result, 1 if result.status == "error" else 0


def _check_options(
    graph: Path | None, nodes: Path | None, edges: Path | None, engine: Path | None, answers: Path | None
) -> None:
    if (nodes is None) != (edges is None) or (graph is None) == (nodes is None):
        raise InputError("which graph?", "give --graph RUN, or both --nodes FILE and --edges FILE")
    if engine is not None and answers is not None:
        raise InputError("--engine and --answers do not go together", "give one of them")


def _graph(graph: Path | None, nodes: Path | None, edges: Path | None) -> PropertyGraph:
    from kgqa_hpc.plugins.gasl import graph_files

    if nodes is not None and edges is not None:
        return graph_files.read_tables(nodes, edges)
    assert graph is not None
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.store.canonical import sha256_of

    path = graph / "kg.h5"
    if not path.exists():
        raise InputError(f"{path}: no such file", f"import the graph first: kgqa import {graph}")
    return graph_files.from_run(read_graph(path), sha256_of(path))


@contextmanager
def _asking(engine: Path | None, answers: Path | None) -> Iterator[Ask]:
    if answers is not None:
        yield Answers.read(answers)
    elif engine is not None:
        from kgqa_hpc.plugins.gasl.engine_ask import asking

        with asking(engine) as ask:
            yield ask
    else:
        yield nobody


def _read(script: Path) -> bytes:
    try:
        return read_bytes(script)
    except OSError as problem:
        raise InputError(f"{script}: cannot be read: {problem.strerror}") from None
