"""Conditions and expressions mean what docs/guide/gasl.md says, kind by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.plugins.gasl.execute import Result

Run = Callable[..., Result]
ITEMS = (
    '[{"k": "text", "v": "101"}, {"k": "number", "v": 101}, {"k": "decimal", "v": 2.5}, '
    '{"k": "true", "v": true}, {"k": "list", "v": ["a", 101, true]}, {"k": "object", "v": {"a": 1}}, '
    '{"k": "null", "v": null}, {"k": "none"}, {"k": "word", "v": "true"}, {"k": "case", "v": "Straße RUIZ"}]'
)


def kept(run: Run, condition: str, before: str = "") -> list[str]:
    result = run(f"SET items = {ITEMS}\n{before}\nUPDATE some WITH items WHERE {condition}")
    assert result.error is None, result.error
    return [item["k"] for item in result.variables["some"]]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("v = 101", ["text", "number"]),
        ('v = "101"', ["text", "number"]),
        ("v = 101.0", ["number"]),
        ("v = 1.01e2", ["number"]),
        ("v = true", ["true", "word"]),
        ('v = "TRUE"', ["true"]),
        ("v = null", []),
        ("v != 101", ["decimal", "true", "list", "object", "word", "case"]),
        ("NOT v = 101", ["decimal", "true", "list", "object", "null", "none", "word", "case"]),
        ("v < 101", ["decimal"]),
        ("v <= 101", ["text", "number", "decimal"]),
        ("v > 2", ["number", "decimal", "word", "case"]),
        ("v >= true", ["word"]),
        ("v < abc", ["text", "case"]),
        ("v contains ruiz", ["case"]),
        ('v contains "STRASSE"', ["case"]),
        ("v contains 101", ["text", "list"]),
        ("v contains true", ["list", "word"]),
        ('v contains ""', ["text", "word", "case"]),
        ('v matches "^S.*Z$"', ["case"]),
        ("v matches ruiz", []),
        ("v in (101, true)", ["text", "number", "true", "word"]),
        ("v is null", ["null", "none"]),
        ("v is not null AND NOT v in (101)", ["decimal", "true", "list", "object", "word", "case"]),
        ("unknown is null AND v = 2.5", ["decimal"]),
        ("v = 101 OR v = 2.5 AND k = decimal", ["text", "number", "decimal"]),
        ("(v = 101 OR v = 2.5) AND k = decimal", ["decimal"]),
        ("NOT (v = 101 OR v is null) AND NOT NOT k = true", ["true"]),
    ],
)
def test_a_condition_keeps_what_it_says(run: Run, condition: str, expected: list[str]) -> None:
    assert kept(run, condition) == expected


@pytest.mark.parametrize(
    ("before", "condition", "expected"),
    [
        ("SET x = 101", "v = $x", ["text", "number"]),
        ('SET x = "101"', "v = $x", ["text", "number"]),
        ("SET x = true", "v = $x", ["true", "word"]),
        ('SET d = {"a": {"b": 2.5}}', "v = $d.a.b", ["decimal"]),
        (
            'SET l = [{"n": 101}, {"n": true}, {"n": [1]}, {}]',
            "v in $l.n",
            ["text", "number", "true", "word"],
        ),
        ("SET l = [2.5, 101]", "v in $l", ["text", "number", "decimal"]),
        ('SET l = [{"category": "2.5", "value": 101}]', "v in $l", ["decimal"]),
        ("SET x = 101", "v in $x", ["text", "number"]),
    ],
)
def test_a_variable_acts_as_a_literal(run: Run, before: str, condition: str, expected: list[str]) -> None:
    assert kept(run, condition, before) == expected


@pytest.mark.parametrize(
    ("before", "condition", "kind"),
    [
        ("SET l = [1]", "v = $l", "type"),
        ("SET l = {}", "v = $l", "type"),
        ("SET l = null", "v = $l", "type"),
        ("SET l = {}", "v = $l.a", "name"),
        ("SET l = [{}, {}]", "v in $l.a", "name"),
        ("SET l = 1", "v = $ll", "name"),
        ("SET l = 1", "w = 1", "name"),
        ("SET l = 1", "w.a is null OR v.b = 1", "name"),
    ],
)
def test_what_a_condition_cannot_read_is_an_error(run: Run, before: str, condition: str, kind: str) -> None:
    result = run(f"SET items = {ITEMS}\n{before}\nUPDATE some WITH items WHERE {condition}")
    assert result.error is not None
    assert result.error["kind"] == kind
    assert result.error["line"] == 3


@pytest.mark.parametrize(
    ("expression", "expected", "skipped"),
    [
        ("1 + 2 * 3 - 4 / 2", [5.0, 5.0], 0),
        ("-(a - 1) * -2", [0, 2], 0),
        ("a", [1, 2], 0),
        ("a / b", [0.5, None], 1),
        ("a / 0", [None, None], 2),
        ("a * 1e308 * 10", [None, None], 2),
        ("a * 9e999", [None, None], 2),
        ('"{a}-{{{t}}}"', ["1-{X y}", "2-{Z}"], 0),
        ('"{l} {o} {d}"', ['[1,"é"] {"x":null} 2.5', None], 1),
        ("upper(t)", ["X Y", "Z"], 0),
        ("length(t) + length(lower(t))", [6, 2], 0),
        ("length(l)", [2, None], 1),
        ("$n + a", [11, 12], 0),
        ("$col.x", [7, None], 1),
        ("$res", ["r", "s"], 0),
        ("res", ["r", "s"], 0),
        ("d", [2.5, None], 1),
    ],
)
def test_an_expression_is_worth_what_it_says(
    run: Run, expression: str, expected: list[Any], skipped: int
) -> None:
    result = run(
        'SET items = [{"a": 1, "b": 2, "t": "X y", "l": [1, "é"], "o": {"x": null}, "d": 2.5}, '
        '{"a": 2, "t": "Z"}]\n'
        'SET n = 10; SET col = [{"x": 7}, {"y": 1}]; SET res = [{"result": "r"}, {"result": "s"}]\n'
        f"ADD_FIELD items FIELD: new = {expression} AS made"
    )
    assert result.error is None, result.error
    assert [item["new"] for item in result.variables["made"]] == expected
    assert result.steps[-1]["skipped"] == skipped


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("t + 1", "type"),
        ('"1" + 1', "type"),
        ("-t", "type"),
        ("lower(a)", "type"),
        ("length(a)", "type"),
        ("nope", "name"),
        ('"{nope}"', "name"),
        ("$nope", "name"),
        ("$three", "type"),
        ("three", "type"),
        ("$dict", "type"),
        ('"' + "{t}" * 2 + "x" * 66000 + '"', "limit"),
    ],
)
def test_an_expression_that_cannot_be_is_an_error(run: Run, expression: str, kind: str) -> None:
    result = run(
        'SET items = [{"a": 1, "t": "X"}]; SET three = [1, 2, 3]; SET dict = {"a": 1}\n'
        f"ADD_FIELD items FIELD: new = {expression}"
    )
    assert result.error is not None
    assert result.error["kind"] == kind
    assert "new" not in result.variables["items"][0]


def test_a_field_name_that_is_taken_is_numbered_on(run: Run) -> None:
    result = run('SET l = [{"x": 1}, {"properties": {"x_1": 2}}]\nADD_FIELD l FIELD: x = 5')
    assert result.steps[-1]["field"] == "x_2"
    assert [item["x_2"] for item in result.variables["l"]] == [5, 5]


def test_a_field_has_other_names_and_properties_count(run: Run) -> None:
    result = run(
        "FIND edges WITH relationship_name=treats AND source_id=d2 AND target_node=s2 AS e\n"
        "FIND nodes WITH properties.year=1975 AND year=1975 AS p\n"
        'SELECT e FIELDS relation, "properties.weight" AS no'
    )
    assert len(result.variables["e"]) == 1
    assert len(result.variables["p"]) == 2
    assert result.error is not None
    assert (result.error["kind"], result.error["column"]) == ("name", 27)


def test_the_ends_of_edges_and_paths_can_be_asked_for(run: Run, short: Callable[[Any], Any]) -> None:
    result = run(
        "FIND edges WITH TARGET_FILTER name=stroke OR NOT SOURCE_FILTER type!=EVENT AND weight=0.7 AS e\n"
        "FIND paths WITH source=d1 AND length=2 AND relations contains treats DIRECTION out AS p\n"
        "FIND paths WITH nodes contains g3 AND (target=g2 OR source=nope) DEPTH 2 AS q"
    )
    assert short(result.variables["e"]) == ["d1>s1"]
    assert short(result.variables["p"]) == ["d1>s1>g1"]
    assert short(result.variables["q"]) == ["g3>d2>g2"]
