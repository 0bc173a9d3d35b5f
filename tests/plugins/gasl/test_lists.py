"""Commands that make lists, dicts and numbers from others, corner by corner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.plugins.gasl.execute import Result

Run = Callable[..., Result]


def made(run: Run, script: str) -> Any:
    """The variable `r` a script leaves."""
    result = run(script)
    assert result.error is None, result.error
    return result.variables["r"]


def kind_of_error(run: Run, script: str) -> str | None:
    error = run(script).error
    return error["kind"] if error else None


MIXED = (
    'SET v = [{"g": 2, "f": 1}, {"g": 2.0, "f": 1.0}, {"g": "2", "f": "1"}, {"g": true, "f": [1]}, '
    '{"f": 1}]\n'
)


@pytest.mark.parametrize(
    ("command", "expected", "skipped"),
    [
        ("COUNT v", 5, 0),
        ("COUNT v UNIQUE", 4, 0),
        ("COUNT v FIELD f", {"1": 4, "[1]": 1}, 0),
        ("COUNT v FIELD f UNIQUE", 3, 0),
        ("COUNT v BY g", {"2": 3, "true": 1}, 1),
        ("COUNT v BY g UNIQUE", {"2": 2, "true": 1}, 1),
        ("COUNT v FIELD f BY g UNIQUE", {"2": 2, "true": 1}, 1),
        ("COUNT v WHERE g = 2 GROUP BY g", {"2": 3}, 0),
        ("AGGREGATE v BY g WITH count", {"2": 3, "true": 1}, 1),
    ],
)
def test_counts_keep_kinds_apart_and_keys_are_texts(
    run: Run, command: str, expected: Any, skipped: int
) -> None:
    result = run(f"{MIXED}{command} AS r")
    assert result.variables["r"] == expected
    assert result.steps[-1]["skipped"] == skipped


def test_groups_keep_values_of_different_kinds_apart(run: Run) -> None:
    assert [(g["key"], g["count"]) for g in made(run, f"{MIXED}GROUP v BY g AS r")] == [
        (2, 2),
        ("2", 1),
        (True, 1),
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("AGGREGATE v BY k WITH sum OF n", {"a": 3, "b": 2.5}),
        ("AGGREGATE v BY k WITH avg OF n", {"a": 1.5, "b": 2.5}),
        ("AGGREGATE v BY k WITH min OF t", {"a": "x", "b": "z"}),
        ("AGGREGATE v BY t WITH max", "z"),
        ("AGGREGATE v BY n WITH avg", 5.5 / 3),
        ("AGGREGATE v BY k WITH count OF n", {"a": 2, "b": 1}),
    ],
)
def test_aggregates_are_computed(run: Run, command: str, expected: Any) -> None:
    first = '{"k": "a", "n": 1, "t": "x"}, {"k": "a", "n": 2, "t": "y"}'
    items = f'[{first}, {{"k": "b", "n": 2.5, "t": "z"}}, {{"k": "b"}}]'
    assert made(run, f"SET v = {items}\n{command} AS r") == expected


@pytest.mark.parametrize("command", ["AGGREGATE v BY n WITH sum", "AGGREGATE v BY n WITH min", "RANK v BY n"])
def test_mixed_kinds_have_no_sum_and_no_order(run: Run, command: str) -> None:
    assert kind_of_error(run, f'SET v = [{{"n": 1}}, {{"n": "a"}}]\n{command}') == "type"
    assert kind_of_error(run, f'SET v = [{{"n": true}}, {{"n": false}}]\n{command}') == "type"


def test_ranking_is_stable_and_puts_what_misses_the_field_last(run: Run) -> None:
    before = 'SET v = [{"i": 1}, {"i": 2, "n": 5}, {"i": 3, "n": 7}, {"i": 4, "n": 5}, {"i": 5, "n": null}]\n'
    assert [x["i"] for x in made(run, before + "RANK v BY n AS r")] == [3, 2, 4, 1, 5]
    assert [x["i"] for x in made(run, before + "RANK v BY n ASC TOP 3 AS r")] == [2, 4, 3]
    assert run(before + "RANK v BY n").variables["v"][0]["i"] == 3


def test_a_join_changes_sides_when_only_that_fits(run: Run) -> None:
    before = (
        'SET a = [{"x": 1, "n": "p"}, {"x": 2}, {"q": 0}]\n'
        'SET b = [{"y": 2.0, "n": "s"}, {"y": 1}, {"y": 1}]\n'
    )
    one = made(run, before + "JOIN a WITH b ON x/y AS r")
    assert one == [{"x": 1, "n": "p"}, {"x": 1, "n": "p"}, {"x": 2, "n": "s"}]
    assert made(run, before + "JOIN a WITH b ON y/x AS r") == one
    assert run(before + "JOIN a WITH b ON x/y AS r").steps[-1]["skipped"] == 1
    assert kind_of_error(run, before + "JOIN a WITH b ON x AS r") == "name"
    assert run(before + "SET e = []\nJOIN e WITH b ON x").steps[-1]["status"] == "empty"


def test_merging_drops_what_is_the_same(run: Run) -> None:
    before = (
        'SET a = [{"id": 1, "x": 1}, {"x": 1, "y": 2}]\n'
        'SET b = [{"id": 1.0}, {"y": 2.0, "x": 1}, {"x": 1}, 5]\n'
    )
    assert made(run, before + "MERGE a, b AS r") == [
        {"id": 1, "x": 1},
        {"x": 1, "y": 2},
        {"x": 1},
        {"value": 5},
    ]
    assert made(run, 'SET a = {"k": 1}; SET b = {"k": 2, "l": 3}; MERGE a, b AS r') == {"k": 1, "l": 3}
    assert len(made(run, 'SET a = {"k": 1}; SET b = [{"key": "k", "value": 1}]; MERGE a, b AS r')) == 1


def test_comparing_tells_what_changed_and_by_how_much(run: Run) -> None:
    result = made(
        run,
        'SET a = [{"id": 1, "n": 5}, {"id": 2, "n": "x"}, {"id": 1, "n": 9}, {"id": 3}, {"n": 4}]\n'
        'SET b = [{"id": 2, "n": "y"}, {"id": 1, "n": 7.5}, {"id": 3, "n": 1}]\n'
        "COMPARE a WITH b ON n AS r",
    )
    assert result["common"] == []
    assert result["only_left"] == [5, "x", 9, 4]
    assert result["only_right"] == ["y", 7.5, 1]
    assert result["changed"] == [
        {"id": 1, "left": 5, "right": 7.5, "difference": 2.5},
        {"id": 2, "left": "x", "right": "y"},
    ]


UPDATES = (
    'SET v = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]; SET w = [{"id": "b", "m": 3}, {"id": "c", "m": 0}]\n'
)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("", [{"id": "b", "m": 3}, {"id": "c", "m": 0}]),
        ("OPERATION: filter WHERE m > 0", [{"id": "b", "m": 3}]),
        ("OPERATION: append WHERE m > 0", [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "b", "m": 3}]),
        ("OPERATION: delete", [{"id": "a", "n": 1}]),
        ("OPERATION: merge", [{"id": "a", "n": 1}, {"id": "b", "n": 2, "m": 3}, {"id": "c", "m": 0}]),
    ],
)
def test_a_list_is_updated_by_another(run: Run, operation: str, expected: list[Any]) -> None:
    assert run(f"{UPDATES}UPDATE v WITH w {operation}").variables["v"] == expected


def test_dicts_are_updated_by_key_and_counters_by_value(run: Run) -> None:
    before = 'SET r = {"a": 1, "b": 2}; SET w = {"b": 5, "c": 6}\n'
    assert made(run, before + "UPDATE r WITH w") == {"b": 5, "c": 6}
    assert made(run, before + "UPDATE r WITH w OPERATION: append WHERE value > 5") == {"a": 1, "b": 2, "c": 6}
    assert made(run, before + "UPDATE r WITH w OPERATION: delete") == {"a": 1}
    assert made(run, "SET r = 2; SET w = 0.5; UPDATE r WITH w OPERATION: merge") == 2.5
    for wrong in (
        "UPDATE n WITH m OPERATION: delete",
        "UPDATE n WITH l",
        "UPDATE n WITH t",
        "UPDATE t WITH n",
    ):
        assert kind_of_error(run, f"SET n = 1; SET m = 2; SET l = []; SET t = text\n{wrong}") == "type"


def test_a_declared_variable_keeps_its_kind(run: Run) -> None:
    assert kind_of_error(run, "DECLARE a AS LIST; SET a = 5") == "type"
    assert kind_of_error(run, "SET a = 5; DECLARE a AS LIST") == "type"
    assert run('DECLARE a AS LIST; SET a = [1]; DECLARE a AS LIST WITH_DESCRIPTION "x"').variables == {
        "a": []
    }
    assert run("SET a = 5; SET a = []; SET a = text").variables == {"a": "text"}


def test_results_without_a_name_go_back_or_to_last(run: Run) -> None:
    result = run(
        'SET d = {"l": [{"n": 1}, {"n": 2}]}; SET v = [{"n": 1}, {"n": 2}]\n'
        "RANK v BY n; RANK d.l BY n; SELECT v FIELDS n"
    )
    assert [step["variable"] for step in result.steps[2:]] == ["v", "last", "last"]
    assert result.variables["d"] == {"l": [{"n": 1}, {"n": 2}]}
    assert result.variables["v"] == [{"n": 2}, {"n": 1}]


@pytest.mark.parametrize(
    ("script", "column", "nearest"),
    [
        ("SET drugs = []; COUNT drgs", 23, "drugs"),
        ('SET d = {"nodes": []}; COUNT d.nods', 30, "nodes"),
        ('SET v = [{"year": 1}]; RANK v BY yeer', 34, "year"),
        ("SET v = [{\"year\": 1}]; ADD_FIELD v FIELD: x = '{yeer}'", 47, "year"),
        ("FIND nodes AS n; GRAPHWALK FROM n FOLLOW studys", 42, "studies"),
        ("FIND nodes AS n; SUBGRAPH AROUND n RADIUS 1 INCLUDE drag", 53, "drug"),
        ("GRAPHPATTERN (drog)-->()", 15, "drug"),
        ("FIND nodes WITH yaer = 1", 17, "year"),
        ("FIND paths WITH sourc = 1", 17, "source"),
        ("SET v = 1; SET w = []; UPDATE w WITH v.x", 38, None),
    ],
)
def test_an_unknown_name_is_told_of_where_it_stands(
    run: Run, script: str, column: int, nearest: str | None
) -> None:
    error = run(script).error
    assert error is not None
    assert (error["kind"], error["column"], error["nearest"]) == ("name", column, nearest)


def test_a_field_that_is_null_everywhere_is_known(run: Run) -> None:
    result = run('SET v = [{"x": null}, {}]; COUNT v FIELD x AS r')
    assert (result.status, result.variables["r"], result.steps[-1]["skipped"]) == ("success", {}, 2)


def test_a_command_that_fails_changes_nothing(run: Run) -> None:
    result = run(
        "DECLARE r AS DICT\n"
        'SET v = [{"id": "x1", "name": "new"}]\n'
        "TRY CREATE_NODES FROM v AS r\nCATCH COUNT FIND nodes AS n\n"
    )
    assert result.variables["n"] == 12
    assert result.variables["r"] == {}
