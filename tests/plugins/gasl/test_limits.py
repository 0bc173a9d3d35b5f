"""Steps and results are bounded: what is too large is cut and said, or is an error."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kgqa_hpc.plugins.gasl.execute import Result
from kgqa_hpc.plugins.gasl.graph import PropertyGraph
from kgqa_hpc.plugins.gasl.world import Bounds, Prompt

Run = Callable[..., Result]
GraphOf = Callable[..., PropertyGraph]


@pytest.fixture(scope="module")
def crowd(graph_of: GraphOf) -> PropertyGraph:
    """330 nodes, each with an edge to every other: 108,570 edges."""
    nodes = [f"n{k},n{k},t" for k in range(330)]
    edges = [f"n{a},n{b},e" for a in range(330) for b in range(330) if a != b]
    return graph_of(["id,name,type", *nodes], ["source_id,target_id,type", *edges])


def limited(result: Result) -> dict[str, Any]:
    """The error of a script that went beyond a limit."""
    assert result.error is not None
    assert result.error["kind"] == "limit"
    return result.error


def test_a_list_keeps_its_first_hundred_thousand_items_a_count_all(crowd: PropertyGraph, run: Run) -> None:
    result = run("FIND edges AS e; COUNT FIND edges AS n; FIND edges LIMIT 100000 AS f", crowd)
    assert len(result.variables["e"]) == 100_000
    assert result.variables["e"][-1]["source"] == "n303"
    assert result.variables["n"] == 108_570
    cut, _, whole = result.steps
    assert (cut["truncated"], cut["status"], result.status) == (True, "partial", "partial")
    assert ("truncated" in whole, whole["status"], whole["count"]) == (False, "success", 100_000)


def test_a_list_within_a_dict_is_cut_too(crowd: PropertyGraph, run: Run) -> None:
    result = run("FIND nodes LIMIT 1 AS one; SUBGRAPH AROUND one RADIUS 1 AS s", crowd)
    assert [len(part) for part in result.variables["s"].values()] == [330, 100_000]
    assert result.steps[1]["status"] == "partial"


@pytest.mark.parametrize(
    "script", ["COUNT FIND paths DEPTH 10", "FIND paths WITH target=nowhere DEPTH 10", "GRAPHWALK FROM e"]
)
def test_a_search_that_looks_at_too_much_is_a_limit_error(
    crowd: PropertyGraph, run: Run, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr("kgqa_hpc.plugins.gasl.world.MAX_LOOKS", 100_000)
    assert limited(run(f"FIND nodes AS e; {script}", crowd))["column"] == 18


def test_an_item_may_have_64_kib_and_no_more(run: Run) -> None:
    longest = "a" * (65536 - len('{"x":""}'))
    assert run(f'SET v = [{{"x": "{longest}"}}]').status == "success"
    for expression in ("upper(x)", '"{x}{x}"', "1"):
        text = longest if expression == "1" else "é" * 32764
        result = run(f'SET v = [{{"x": "{text}"}}]\nADD_FIELD v FIELD: y = {expression}')
        assert limited(result)["line"] == 2
        assert list(result.variables["v"][0]) == ["x"]


def test_variables_and_created_nodes_together_are_bounded(run: Run) -> None:
    doubling = "SET v = [1, 2, 3]\n" + "UPDATE v WITH v OPERATION: append\n" * 20
    result = run(doubling, bounds=Bounds(bytes=100_000))
    limited(result)
    assert 1000 < len(result.variables["v"]) < 100_000
    creating = "".join(f'SET v = ["n{k}"]; CREATE_NODES FROM v AS v\n' for k in range(150))
    assert 10 < limited(run(creating, bounds=Bounds(bytes=5_000)))["line"] < 100


def test_a_value_is_nested_at_most_two_hundred_levels(run: Run) -> None:
    start, nested = 'SET v = [{"key": 1}]\n', "GROUP v BY key AS v\n" * 90
    limited(run(start + nested * 3))
    result = run(f"{start}{nested}COUNT v UNIQUE AS n; MERGE v, v AS m; COUNT v FIELD items AS t")
    assert result.error is None
    assert (result.variables["n"], len(result.variables["m"])) == (1, 1)


def test_an_answer_nested_deeper_than_a_script_counts_as_none(run: Run) -> None:
    def deep(prompts: Sequence[Prompt]) -> Sequence[Any]:
        value: Any = 1
        for _ in range(5000):
            value = [value]
        return [value for _ in prompts]

    result = run("SET v = [1]; PROCESS v WITH x", ask=deep)
    assert (result.status, result.variables["v"][0]["result"]) == ("partial", None)


def test_a_pattern_that_would_backtrack_for_ever_takes_linear_time(graph_of: GraphOf, run: Run) -> None:
    graph = graph_of(["id,name,type", f"n1,{'a' * 60000}!,t"], ["source_id,target_id,type"])
    begin = time.process_time()
    assert run('FIND nodes WITH name matches "(a+)+$" AS r', graph).variables["r"] == []
    assert time.process_time() - begin < 30
