"""Execution of a script: each command gives a step; TRY, ON and plans decide which command follows.

`execute` changes the given state, which is plain JSON and complete after each step, so that the same script can
continue from it after a kill. To continue, the script runs from its beginning with the finished steps taken from the
state, so the position in nested TRY blocks is not stored.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kgqa_hpc.errors import InputError, ScriptError
from kgqa_hpc.plugins.gasl import combining, computing, finding, walking
from kgqa_hpc.plugins.gasl.graph import Graph, PropertyGraph
from kgqa_hpc.plugins.gasl.language import Attempt, On, Ref, Script, Simple, Statement
from kgqa_hpc.plugins.gasl.world import OWN_SCRIPT, Bounds, Model, Outcome, World, nobody
from kgqa_hpc.text.streams import read_bytes

FORMAT = 1


@dataclass
class State:
    """Variables, declarations, created nodes and edges, and the finished steps of one script on one graph.

    `script` and `graph` are their digests, `work` the work that the steps have used of the script's limits.
    """

    script: str
    graph: str
    steps: list[dict[str, Any]] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    declared: dict[str, dict[str, str | None]] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    edges: list[dict[str, Any]] = field(default_factory=list)
    work: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON; its parts are those of the state, not copies."""
        return {"format": FORMAT, **vars(self)}

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> State:
        """Raises ValueError when the document is not a state of this format."""
        if document.get("format") != FORMAT:
            raise ValueError(f"format is {document.get('format')!r}, not {FORMAT}")
        members = {"work": 0, **document}  # files of earlier versions have no `work`
        for name, blank in vars(cls("", "")).items():
            if type(members.get(name)) is not type(blank) or (name == "work" and members[name] < 0):
                raise ValueError(f"`{name}` is missing or has a wrong type or value")
        return cls(**{name: members[name] for name in vars(cls("", ""))})


def load_state(path: Path, script: str, graph: str) -> State:
    """Read the state from a file; a new state if the file is missing.

    Raises InputError when the file holds the state of another script or graph, or no state at all.
    """
    try:
        state = State.from_dict(json.loads(read_bytes(path)))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InputError(f"{path}: its folder does not exist", "create it first") from None
        return State(script, graph)
    except OSError as problem:
        raise InputError(f"{path}: cannot be read: {problem.strerror}") from None
    except (ValueError, AttributeError, RecursionError) as problem:
        raise InputError(f"{path}: is not the state of a script: {problem}", "give another file") from None
    for noun, mine, theirs in (("script", script, state.script), ("graph", graph, state.graph)):
        if mine != theirs:
            cure = f"give the {noun} it was made with, or another --state file"
            raise InputError(f"{path}: is the state of another {noun}", cure)
    return state


Step = dict[str, Any]
# Called with the state after each step that is not an error.
OnStep = Callable[[State], object]


@dataclass(frozen=True)
class Result:
    """The result of a script: success, partial, empty, cancelled or error (then with `error`).

    A script that cannot be read gives an error without variables and steps.
    """

    status: str
    variables: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    error: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        document = {"status": self.status, "variables": self.variables, "steps": self.steps}
        return document if self.error is None else {**document, "error": self.error}


class _Unhandled(Exception):
    """A step, the argument, failed, and no ON or CATCH has handled it yet."""


class _Stopped(Exception):
    """The script has ended with a status, the argument: cancelled, or empty in a plan that stops at empty results."""


def execute(
    script: Script,
    graph: PropertyGraph,
    state: State | None = None,
    ask: Model = nobody,
    on_step: OnStep | None = None,
    bounds: Bounds = OWN_SCRIPT,
) -> Result:
    """Run a script, or its remaining steps after `state`, which must be of this script and graph."""
    state = state or State(script.digest, graph.digest)
    own_graph = Graph(graph, state.nodes, state.edges)
    world = World(own_graph, ask, state.variables, state.declared, bounds, state.work)
    run = _Run(script, world, state, on_step)
    error = None
    try:
        run.block(script.statements, guarded=False)
        partly = run.passed_over or any(step["status"] == "partial" for step in state.steps)
        status = "partial" if partly else "success"
    except _Stopped as stopped:
        status = stopped.args[0]
    except _Unhandled as unhandled:
        status, error = "error", unhandled.args[0]["error"]
    return Result(status, world.variables, state.steps, error)


@dataclass
class _Run:
    """The execution of a script; `position` counts the finished steps, those of an earlier process included."""

    script: Script
    world: World
    state: State
    on_step: OnStep | None
    position: int = 0
    passed_over: bool = False

    def block(self, statements: Sequence[Statement], guarded: bool) -> None:
        """Run statements; `guarded` when a TRY around them ends at their first unhandled error."""
        following = deque(statements)
        while following:
            statement = following.popleft()
            try:
                if isinstance(statement, Attempt):
                    self._attempt(statement, guarded)
                    continue
                assert isinstance(statement, Simple)
                step = self._step(statement)
                ons: list[On] = []
                while following and isinstance(on := following[0], On):
                    ons.append(on)
                    following.popleft()
                for on in ons:
                    if on.status == step["status"]:
                        self._settle(self._step(on.simple), guarded)
                    else:
                        self._record(partial(step_of, on, "skipped"))
                if all(on.status != step["status"] for on in ons):
                    self._settle(step, guarded)
            except _Unhandled as unhandled:
                self._pass_over(unhandled, guarded)

    def _pass_over(self, unhandled: _Unhandled, guarded: bool) -> None:
        if guarded or self.script.stop_on_error or unhandled.args[0]["error"]["kind"] == "assert":
            raise unhandled
        self.passed_over = True

    def _attempt(self, attempt: Attempt, guarded: bool) -> None:
        try:
            try:
                self.block(attempt.body, guarded=True)
            except _Unhandled:
                if attempt.rescue is None:
                    raise
                self.block(attempt.rescue, guarded)
        except (_Unhandled, _Stopped):
            self.block(attempt.final or (), guarded)
            raise
        self.block(attempt.final or (), guarded)

    def _settle(self, step: Step, guarded: bool) -> None:
        if step["status"] == "error":
            self._pass_over(_Unhandled(step), guarded)
        elif step["status"] == "empty" and not self.script.continue_on_empty:
            raise _Stopped("empty")

    def _step(self, simple: Simple) -> Step:
        if simple.command.name == "cancel":
            (plan,) = simple.command.arguments
            if plan is not None and plan.text != self.script.plan_id:
                return self._record(lambda: step_of(simple, "skipped"))
            self._record(lambda: step_of(simple, "success"))
            raise _Stopped("cancelled")
        return self._record(lambda: perform(simple, self.world))

    def _record(self, make: Callable[[], Step]) -> Step:
        """The next step: taken from the state if it was done before, otherwise done now and passed to `on_step`."""
        if self.position < len(self.state.steps):
            step = self.state.steps[self.position]
        else:
            step = make()
            self.state.steps.append(step)
            self.state.work = self.world.work
            # An error that ends the script is not kept, so that the same command may be tried again.
            if self.on_step is not None and step["status"] != "error":
                self.on_step(self.state)
        self.position += 1
        return step


LAST = "last"
# The function of each command by its rule in grammar.lark; the values of the rule's parts are its arguments.
_COMMANDS: dict[str, Callable[..., Outcome]] = {
    "set": lambda world, name, value: Outcome(value),
    **dict.fromkeys(("find", "debug"), lambda world, search: Outcome(finding.find(world, search))),
    **{
        function.__name__: function
        for function in (
            *(computing.add_field, computing.ask, computing.generate, computing.count, computing.aggregate),
            *(computing.iterate, computing.check, computing.show, computing.inspect),
            *(combining.join, combining.merge, combining.compare, combining.select, combining.rank),
            *(combining.group, combining.declare, combining.update, combining.create),
            *(walking.walk, walking.connect, walking.subgraph, walking.pattern, walking.cluster),
        )
    },
}


def step_of(statement: Simple | On, status: str) -> dict[str, Any]:
    """The step of a statement without a result."""
    step = {"line": statement.place.line, "column": statement.place.column, "command": statement.text}
    return {**step, "status": status, "variable": None, "count": None, "skipped": 0}


def perform(simple: Simple, world: World) -> dict[str, Any]:
    """Execute a command and return its step; a command that fails changes nothing."""
    step = step_of(simple, "success")
    try:
        with world.undoing():
            step.update(_done(simple, world))
    except ScriptError as problem:
        problem.place = problem.place or simple.place
        step.update(status="error", error=problem.report())
    return step


def _done(simple: Simple, world: World) -> dict[str, Any]:
    name, arguments = simple.command
    outcome = _COMMANDS[name](world, *arguments)
    notes = {"skipped": outcome.skipped, **outcome.notes}
    if not outcome.stores:
        return {"status": "partial" if outcome.partial else "success", **notes}
    # The variable that takes the result: the one after AS, else the one that the command updates, else `last`
    variable = LAST
    if simple.into is not None:
        variable = simple.into.text
    elif name in ("declare", "set", "update"):
        variable = arguments[0].text
    elif name in ("ask", "add_field", "rank") or (name == "iterate" and arguments[-1].name == "asked"):
        ref: Ref = next(argument for argument in arguments if isinstance(argument, Ref))
        variable = LAST if ref.entries else ref.name
    value, truncated = world.store(variable, outcome.value)
    if name == "debug":
        notes["output"] = computing.shown(value, computing.SHOWN)
    if truncated:
        notes["truncated"] = True
    parts = list(value.values()) if isinstance(value, dict) else [value]
    has_none = name not in ("declare", "set") and all(part == [] for part in parts)
    empty = outcome.empty or has_none
    status = "partial" if truncated or outcome.partial else "empty" if empty else "success"
    count = len(value) if isinstance(value, list | dict) else None
    return {"status": status, "variable": variable, "count": count, **notes}
