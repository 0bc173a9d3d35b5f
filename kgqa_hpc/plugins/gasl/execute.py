"""Execution of a script: each command is a step; TRY, ON and plans decide which command follows.

`execute` changes the given state, which is complete after each step, so that the same script can continue from it.
Exceptions of `ask` other than ScriptError reach the caller; the command that asked has then changed
nothing, and the script may be executed again with more answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.commands import Attempt, Cancel, On, Script, Simple, Statement
from kgqa_hpc.plugins.gasl.graph import Graph, PropertyGraph
from kgqa_hpc.plugins.gasl.model import Ask, nobody
from kgqa_hpc.plugins.gasl.perform import perform, step_of
from kgqa_hpc.plugins.gasl.source import Plan
from kgqa_hpc.plugins.gasl.state import State
from kgqa_hpc.plugins.gasl.world import OWN_SCRIPT, Bounds, World

Step = dict[str, Any]
# Called with the state after each step that is not an error.
OnStep = Callable[[State], None]


@dataclass(frozen=True)
class Result:
    """The result of a script: success, partial, empty, cancelled or error (then with `error`)."""

    status: str
    variables: dict[str, Any]
    steps: list[Step]
    error: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        document = {"status": self.status, "variables": self.variables, "steps": self.steps}
        return document if self.error is None else {**document, "error": self.error}


def refused(problem: ScriptError) -> Result:
    """The result of a script that cannot be read."""
    return Result("error", {}, [], problem.report())


class _Unhandled(Exception):
    """A step failed, and no ON or CATCH has handled it yet."""

    def __init__(self, step: Step) -> None:
        super().__init__(step["error"]["message"])
        self.step = step


class _Stopped(Exception):
    """The script has ended: cancelled, or empty in a plan that stops at empty results."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


def execute(
    script: Script,
    graph: PropertyGraph,
    state: State,
    ask: Ask = nobody,
    on_step: OnStep | None = None,
    bounds: Bounds = OWN_SCRIPT,
) -> Result:
    """Run the remaining steps of a script. `state` must be of this script and graph."""
    run_graph = Graph(graph, state.nodes, state.edges)
    world = World(run_graph, ask, state.variables, state.declared, bounds, state.work)
    state.nodes, state.edges = run_graph.new_nodes, run_graph.new_edges
    return _Run(script.plan or Plan(stop_on_error=True, continue_on_empty=True), world, state, on_step).run(
        script.statements
    )


class _Run:
    def __init__(self, plan: Plan, world: World, state: State, on_step: OnStep | None) -> None:
        self.plan = plan
        self.world = world
        self.state = state
        self.on_step = on_step
        self.position = 0
        self.passed_over = False

    def run(self, statements: Sequence[Statement]) -> Result:
        error = None
        try:
            self._block(statements, guarded=False)
            partly = self.passed_over or any(step["status"] == "partial" for step in self.state.steps)
            status = "partial" if partly else "success"
        except _Stopped as stopped:
            status = stopped.status
        except _Unhandled as unhandled:
            status, error = "error", unhandled.step["error"]
        return Result(status, self.world.variables, self.state.steps, error)

    def _block(self, statements: Sequence[Statement], guarded: bool) -> None:
        """Run statements; `guarded` when a TRY around them ends at their first unhandled error."""
        position = 0
        while position < len(statements):
            statement = statements[position]
            position += 1
            try:
                if isinstance(statement, Attempt):
                    self._attempt(statement, guarded)
                    continue
                assert isinstance(statement, Simple)
                ons: list[On] = []
                while position < len(statements) and isinstance(following := statements[position], On):
                    ons.append(following)
                    position += 1
                step = self._step(statement)
                handled = False
                for on in ons:
                    if on.status == step["status"]:
                        handled = True
                        self._settle(self._step(on.simple), guarded)
                    else:
                        self._record(partial(step_of, on, "skipped"))
                if not handled:
                    self._settle(step, guarded)
            except _Unhandled as unhandled:
                self._pass_over(unhandled, guarded)

    def _pass_over(self, unhandled: _Unhandled, guarded: bool) -> None:
        if guarded or self.plan.stop_on_error or unhandled.step["error"]["kind"] == "assert":
            raise unhandled
        self.passed_over = True

    def _attempt(self, attempt: Attempt, guarded: bool) -> None:
        try:
            self._rescued(attempt, guarded)
        except (_Unhandled, _Stopped):
            self._block(attempt.final or (), guarded)
            raise
        self._block(attempt.final or (), guarded)

    def _rescued(self, attempt: Attempt, guarded: bool) -> None:
        try:
            self._block(attempt.body, guarded=True)
        except _Unhandled:
            if attempt.rescue is None:
                raise
            self._block(attempt.rescue, guarded)

    def _settle(self, step: Step, guarded: bool) -> None:
        if step["status"] == "error":
            self._pass_over(_Unhandled(step), guarded)
        elif step["status"] == "empty" and not self.plan.continue_on_empty:
            raise _Stopped("empty")

    def _step(self, simple: Simple) -> Step:
        if isinstance(simple.command, Cancel):
            if simple.command.plan_id is not None and simple.command.plan_id != self.plan.plan_id:
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
