"""What runs after what: ON, TRY, CATCH, FINALLY, CANCEL, plans, and the status of steps and scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.plugins.gasl.execute import Result

Run = Callable[..., Result]
FAILS, EMPTY = "COUNT nope AS x", "FIND nodes WITH type=nope AS x"


def plan(run: Run, *commands: Any, **config: bool) -> Result:
    return run(json.dumps({"plan_id": "p1", "why": "a test", "commands": commands, "config": config}))


def statuses(result: Result) -> list[str]:
    return [step["status"] for step in result.steps]


def test_an_error_stops_a_script_and_an_empty_result_does_not(run: Run) -> None:
    result = run(f"{EMPTY}\n{FAILS}\nSET never = 1")
    assert result.status == "error"
    assert statuses(result) == ["empty", "error"]
    assert result.error == result.steps[1]["error"]
    assert "never" not in result.variables


def test_on_looks_at_the_command_before_all_of_them(run: Run) -> None:
    result = run(f"{FAILS}\nON empty DO SET a = 1\nON error DO {EMPTY}\nON error DO SET b = 2\nSET c = 3")
    assert statuses(result) == ["error", "skipped", "empty", "success", "success"]
    assert result.status == "success"
    assert result.variables == {"x": [], "b": 2, "c": 3}


def test_an_on_that_did_not_fit_is_a_step_at_its_own_place(run: Run) -> None:
    step = run("SET a = 1; ON error DO SET b = 2").steps[1]
    assert (step["line"], step["column"], step["command"]) == (1, 12, "ON error DO SET b = 2")


def test_an_error_within_an_on_is_not_handled_by_the_next(run: Run) -> None:
    result = run(f"{EMPTY}\nON empty DO {FAILS}\nON error DO SET a = 1")
    assert result.status == "error"
    assert "a" not in result.variables


def test_a_plan_that_passes_over_an_error_within_an_on_looks_at_the_next(run: Run) -> None:
    result = plan(
        run, EMPTY, f"ON empty DO {FAILS}", "ON empty DO SET a = 1", "SET b = 2", stop_on_error=False
    )
    assert statuses(result) == ["empty", "error", "success", "success"]
    assert (result.status, result.variables) == ("partial", {"x": [], "a": 1, "b": 2})


def test_try_ends_at_its_first_unhandled_error_and_undoes_nothing(run: Run) -> None:
    result = run(f"TRY {{ SET a = 1; {FAILS}; ON error DO SET b = 2; {FAILS}; SET no = 1 }}; CATCH SET c = 3")
    assert result.status == "success"
    assert result.variables == {"a": 1, "b": 2, "c": 3}


def test_finally_runs_on_the_way_out_of_an_error(run: Run) -> None:
    result = run(f"TRY {FAILS}\nFINALLY SET done = 1\nSET never = 1")
    assert result.status == "error"
    assert result.variables == {"done": 1}


def test_finally_runs_when_catch_fails_and_when_nothing_did(run: Run) -> None:
    result = run(f"TRY {FAILS}\nCATCH {FAILS}\nFINALLY SET done = 1")
    assert (result.status, result.variables) == ("error", {"done": 1})
    result = run(f"TRY SET a = 1\nCATCH {FAILS}\nFINALLY SET done = 1")
    assert (result.status, result.variables) == ("success", {"a": 1, "done": 1})


def test_finally_runs_on_the_way_out_of_a_cancel(run: Run) -> None:
    result = run("TRY { SET a = 1; CANCEL; SET no = 1 }\nCATCH SET no = 2\nFINALLY SET done = 1\nSET no = 3")
    assert (result.status, result.variables) == ("cancelled", {"a": 1, "done": 1})


def test_a_try_within_a_try_hands_its_error_on(run: Run) -> None:
    result = run(f"TRY {{\n TRY {FAILS}\n FINALLY SET inner = 1\n SET no = 1\n}}\nCATCH SET outer = 1")
    assert (result.status, result.variables) == ("success", {"inner": 1, "outer": 1})


def test_an_assertion_not_met_is_an_error_and_a_requirement_partial(run: Run) -> None:
    result = run("SET a = 1; REQUIRE a > 1; ASSERT a > 1; SET no = 1")
    assert statuses(result) == ["success", "partial", "error"]
    assert result.error is not None
    assert (result.error["kind"], result.error["column"]) == ("assert", 27)
    assert run("SET a = 1; REQUIRE a > 1").status == "partial"


@pytest.mark.parametrize(
    ("check", "met"),
    [
        ("l count = 2", True),
        ("l = 2", True),
        ("d count >= 1", True),
        ("n = 5", True),
        ("n count > 5", False),
        ("t = abc", True),
        ("t < abd", True),
        ("l has field: a", False),
        ("l has field: b", True),
        ("d has field: k", True),
        ("d has field: no", False),
        ("d.k exists", True),
        ("d.no exists", False),
        ("none is empty", True),
        ("e is empty", True),
        ("e NOT empty", False),
        ("z empty", True),
        ("f is not empty", True),
        ("unknown is empty", False),
        ("unknown is not empty", False),
        ("unknown exists", False),
        ("unknown = 1", False),
        ("n = $n", True),
    ],
)
def test_a_requirement_is_met_or_not(run: Run, check: str, met: bool) -> None:
    result = run(
        'SET l = [{"a": 1, "b": 2}, {"b": 3}]; SET d = {"k": 1}; SET n = 5; SET t = abc; SET e = []\n'
        f"SET none = null; SET z = 0; SET f = false\nREQUIRE {check}"
    )
    assert statuses(result)[-1] == ("success" if met else "partial")


def test_a_plan_stops_at_an_empty_result_unless_it_goes_on(run: Run) -> None:
    result = plan(run, EMPTY, "SET a = 1")
    assert (result.status, result.error, "a" in result.variables) == ("empty", None, False)
    assert plan(run, EMPTY, "ON empty DO SET a = 1", "SET b = 1").status == "success"
    assert plan(run, EMPTY, "SET a = 1", continue_on_empty=True).variables == {"x": [], "a": 1}


def test_a_plan_may_pass_over_errors_but_not_over_assertions(run: Run) -> None:
    result = plan(run, FAILS, {"command": "SET a = 1", "why": "to go on"}, stop_on_error=False)
    assert (result.status, result.error, result.variables) == ("partial", None, {"a": 1})
    result = plan(run, "ASSERT nope exists", "SET a = 1", stop_on_error=False)
    assert result.status == "error"
    assert plan(run, FAILS, "SET a = 1").status == "error"


def test_catch_handles_whatever_stop_on_error_says(run: Run) -> None:
    result = plan(run, f"TRY {{ {FAILS}; SET no = 1 }}", "CATCH SET seen = 1", stop_on_error=False)
    assert (result.status, result.variables) == ("success", {"seen": 1})
    result = plan(run, f"TRY {FAILS}", "FINALLY SET done = 1", "SET on = 1", stop_on_error=False)
    assert (result.status, result.variables) == ("partial", {"done": 1, "on": 1})


def test_cancel_ends_only_the_plan_it_names(run: Run) -> None:
    result = plan(run, "CANCEL p2", "SET a = 1", "CANCEL PLAN p1", "SET no = 1")
    assert (result.status, statuses(result)) == ("cancelled", ["skipped", "success", "success"])
    assert statuses(run("CANCEL p1; SET a = 1")) == ["skipped", "success"]


def test_steps_of_a_plan_are_lines(run: Run) -> None:
    result = plan(run, "SET a = 1", "COUNT\n nope", stop_on_error=False)
    assert [(step["line"], step["column"]) for step in result.steps] == [(1, 1), (2, 1)]
    assert result.steps[1]["error"]["column"] == 8


@pytest.mark.parametrize("script", ["FNID nodes", "SET a = 1\nFIND nodes LIMIT 0"])
def test_nothing_runs_when_the_text_shows_an_error(run: Run, script: str) -> None:
    result = run(script)
    assert (result.status, result.steps, result.variables) == ("error", [], {})
    assert result.error is not None


def test_declare_and_set_are_never_empty_and_counts_of_nothing_neither(run: Run) -> None:
    result = run(
        "DECLARE a AS LIST; SET b = {}; COUNT a AS n; AGGREGATE a BY x WITH sum AS s\n"
        "SUBGRAPH AROUND a RADIUS 1"
    )
    assert statuses(result) == ["success", "success", "success", "success", "empty"]
    assert statuses(run("SET a = []; AGGREGATE a BY x WITH max AS m; SELECT a FIELDS q"))[1:] == [
        "empty",
        "empty",
    ]
