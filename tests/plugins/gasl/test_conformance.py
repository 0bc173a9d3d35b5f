"""Every command on the toy graph, with the result computed by hand. The rows are one script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgqa_hpc.plugins.gasl.execute import Result

Short = Callable[[Any], Any]
# A command, and the variables after it.
TABLE: list[tuple[str, dict[str, Any]]] = [
    ('DECLARE total AS COUNTER WITH_DESCRIPTION "edges without weight"', {"total": 0}),
    ("SET early = 1960", {"early": 1960}),
    ("FIND nodes WITH entity_type=drug AND year < $early AS drugs", {"drugs": ["d1", "d2"]}),
    (
        'FIND nodes WHERE description contains "RUIZ" OR name matches "^Oslo" AS found',
        {"found": ["p1", "p3", "e1", "e2"]},
    ),
    (
        "FIND nodes WHERE NOT year > 0 AND type in (gene, disease) AS undated",
        {"undated": ["g1", "g2", "g3", "s1", "s2"]},
    ),
    (
        "FIND edges AS links; FIND edges WITH relationship_name=targets AND weight >= 0.7 AS strong",
        {"strong": ["d1>g1", "d2>g2"]},
    ),
    (
        "FIND paths WITH source_filter type=drug AND target_filter type=disease DEPTH 2 AS ways",
        {"ways": ["d1>s1", "d2>s2", "d1>g1>s1", "d1>g1>s2", "d2>g2>s2"]},
    ),
    ("PATH WITH source=p1 AND target=p3 LIMIT 1 AS way", {"way": ["p1>p2>p3"]}),
    (
        "COUNT links WHERE weight is null AS n; COUNT FIND nodes FIELD type AS types",
        {"n": 1, "types": {"PERSON": 3, "EVENT": 2, "drug": 2, "gene": 3, "disease": 2}},
    ),
    (
        "COUNT links FIELD target BY type UNIQUE AS ends",
        {"ends": {"COLLABORATION": 3, "studies": 2, "targets": 3, "associates": 2, "treats": 2}},
    ),
    (
        "AGGREGATE links BY type WITH sum OF weight AS sums",
        {
            "sums": {
                "COLLABORATION": 4,
                "studies": pytest.approx(1.3, abs=1e-9),
                "targets": pytest.approx(2, abs=1e-9),
                "associates": pytest.approx(1.1, abs=1e-9),
                "treats": 0.6,
            }
        },
    ),
    ("AGGREGATE links BY weight WITH max AS most", {"most": 2}),
    (
        "SELECT drugs FIELDS name,year AS short",
        {"short": [{"name": "aspirin", "year": 1899}, {"name": "warfarin", "year": 1954}]},
    ),
    (
        "RANK types BY count DESC TOP 2 AS top",
        {"top": [{"key": "PERSON", "value": 3}, {"key": "gene", "value": 3}]},
    ),
    (
        "ADD_FIELD drugs FIELD: age = 2000 - year; "
        'ADD_FIELD strong FIELD: label = "{source}>{target}" AS labelled',
        {"drugs": ["d1", "d2"], "labelled": ["d1>g1", "d2>g2"]},
    ),
    ("SELECT drugs FIELDS age AS ages", {"ages": [{"age": 101}, {"age": 46}]}),
    ("SELECT labelled FIELDS label AS labels", {"labels": [{"label": "d1>g1"}, {"label": "d2>g2"}]}),
    ("JOIN drugs WITH strong ON id/source AS joined", {"joined": ["d1", "d2"]}),
    ("MERGE drugs,found AS both", {"both": ["d1", "d2", "p1", "p3", "e1", "e2"]}),
    (
        "COMPARE links WITH strong ON type AS diff",
        {
            "diff": {
                "common": ["targets"],
                "only_left": ["COLLABORATION", "studies", "associates", "treats"],
                "only_right": [],
                "changed": [],
            }
        },
    ),
    (
        "GROUP both BY type AS groups; CLUSTER both AS parts",
        {
            "groups": [
                {"key": "drug", "count": 2, "items": ["d1", "d2"]},
                {"key": "PERSON", "count": 2, "items": ["p1", "p3"]},
                {"key": "EVENT", "count": 2, "items": ["e1", "e2"]},
            ],
            "parts": [
                {"key": "cluster_1", "count": 2, "items": ["d1", "p1"]},
                {"key": "cluster_2", "count": 2, "items": ["d2", "p3"]},
                {"key": "cluster_3", "count": 1, "items": ["e1"]},
                {"key": "cluster_4", "count": 1, "items": ["e2"]},
            ],
        },
    ),
    (
        "GRAPHWALK FROM drugs FOLLOW targets,associates DEPTH 2 AS reached",
        {"reached": ["g1", "g2", "g3", "s1", "s2"]},
    ),
    (
        "SELECT reached FIELDS depth AS depths",
        {"depths": [{"depth": 1}, {"depth": 1}, {"depth": 1}, {"depth": 2}, {"depth": 2}]},
    ),
    ("GRAPHCONNECT drugs TO found VIA studies AS ties", {"ties": ["d1>p1", "d2>p3"]}),
    (
        "SUBGRAPH AROUND drugs RADIUS 1 INCLUDE gene AS near; COUNT near.edges AS k",
        {"near": {"nodes": ["d1", "d2", "g1", "g2", "g3"], "edges": ["d1>g1", "d2>g2", "d2>g3"]}, "k": 3},
    ),
    (
        "GRAPHPATTERN (drug)-[targets]->(gene)<-[associates]-(disease) AS chains",
        {
            "chains": [
                {"drug": drug, "gene": gene, "disease": disease, "relations": ["targets", "associates"]}
                for drug, gene, disease in (("d1", "g1", "s1"), ("d1", "g1", "s2"), ("d2", "g2", "s2"))
            ]
        },
    ),
    ("CREATE_NODES FROM top WITH TYPE: KIND AS kinds", {"kinds": ["KIND:PERSON", "KIND:gene"]}),
    ("CREATE_EDGES FROM ways WITH TYPE: reaches AS reaches", {"reaches": ["d1>s1", "d2>s2", "d1>s2"]}),
    (
        "CREATE_GROUPS FROM groups AS made; COUNT FIND edges WITH type=member_of AS members",
        {"made": ["group:drug", "group:PERSON", "group:EVENT"], "members": 6},
    ),
    (
        "UPDATE drugs WITH drugs OPERATION: filter WHERE age > 100; UPDATE total WITH n OPERATION: append",
        {"drugs": ["d1"], "total": 1},
    ),
    (
        "ITERATE links BATCH_SIZE 7 WITH COUNT FIELD type AS rounds",
        {
            "rounds": [
                {"batch": 1, "value": {"COLLABORATION": 3, "studies": 2, "targets": 2}},
                {"batch": 2, "value": {"targets": 1, "associates": 3, "treats": 2}},
            ]
        },
    ),
    (
        "PROCESS found WITH instruction: Name of the person, first name first AS named; "
        "SELECT named FIELDS result AS results",
        {"results": [{"result": name} for name in ("Ana Ruiz", "Ana Ruiz", "Ana Ruiz", "Ben Okoye")]},
    ),
    (
        "CLASSIFY found WITH instruction: person vs meeting AS sorts; SELECT sorts FIELDS category AS sorted",
        {"sorted": [{"category": sort} for sort in ("person", "person", "meeting", "meeting")]},
    ),
    ("GENERATE report FROM types WITH one sentence AS story", {"story": "12 nodes of 5 types"}),
    ("REQUIRE drugs count > 1; ASSERT drugs has field: age", {}),
    (
        "FIND nodes WITH type=drug AND year > 2000 AS late; ON empty DO SET note = none",
        {"late": [], "note": "none"},
    ),
    (
        "TRY COUNT drgs AS x; CATCH SET seen = true; FINALLY SET done = true",
        {"seen": True, "done": True},
    ),
    ("SHOW types LIMIT 1; DEBUG FIND edges WITH type=treats AS t; INSPECT types", {"t": ["d1>s1", "d2>s2"]}),
    ("CANCEL; SET never = 1", {}),
]
SCRIPT = "\n".join(line for line, _ in TABLE)


@pytest.fixture(scope="module")
def result(run: Callable[..., Result]) -> Result:
    return run(SCRIPT)


@pytest.mark.parametrize("row", range(len(TABLE)), ids=[line.split(" ")[0] for line, _ in TABLE])
def test_a_row_leaves_what_was_computed_by_hand(row: int, run: Callable[..., Result], short: Short) -> None:
    variables = run("\n".join(line for line, _ in TABLE[: row + 1])).variables
    for name, expected in TABLE[row][1].items():
        assert short(variables[name]) == expected


def _step(result: Result, begin: str) -> dict[str, Any]:
    return next(step for step in result.steps if step["command"].startswith(begin))


def test_the_script_is_cancelled_and_goes_no_further(result: Result) -> None:
    assert result.status == "cancelled"
    assert "never" not in result.variables
    assert result.error is None


def test_all_edges_are_found(result: Result) -> None:
    assert len(result.variables["links"]) == 13


def test_a_path_names_the_types_of_its_edges(result: Result) -> None:
    assert result.variables["way"][0]["relations"] == ["COLLABORATION", "COLLABORATION"]


def test_what_misses_a_field_is_counted_in_skipped(result: Result) -> None:
    assert _step(result, "AGGREGATE links BY type")["skipped"] == 1
    assert _step(result, "CREATE_EDGES")["skipped"] == 2


def test_a_joined_item_holds_both_sides_under_free_names(result: Result) -> None:
    assert result.variables["joined"][0] == {
        "id": "d1",
        "name": "aspirin",
        "type": "drug",
        "age": 101,
        "target": "g1",
        "type_1": "targets",
        "properties": {"year": 1899},
        "properties_1": {"weight": 0.9},
    }


def test_created_nodes_keep_the_rest_of_their_item_as_properties(result: Result) -> None:
    assert [node["properties"] for node in result.variables["kinds"]] == [{"value": 3}, {"value": 3}]


def test_a_requirement_not_met_is_partial_and_an_assertion_met_a_success(result: Result) -> None:
    assert _step(result, "REQUIRE")["status"] == "partial"
    assert _step(result, "ASSERT")["status"] == "success"


def test_a_caught_error_names_its_place_and_the_nearest_variable(result: Result) -> None:
    error = _step(result, "COUNT drgs")["error"]
    line = next(number for number, (row, _) in enumerate(TABLE, 1) if row.startswith("TRY"))
    assert (error["kind"], error["line"], error["column"]) == ("name", line, 11)
    assert error["nearest"] == "drugs"


def test_show_debug_and_inspect_look_without_changing(result: Result) -> None:
    assert _step(result, "SHOW")["output"] == {
        "kind": "DICT",
        "count": 5,
        "items": [{"key": "PERSON", "value": 3}],
    }
    assert [edge["target"] for edge in _step(result, "DEBUG")["output"]["items"]] == ["s1", "s2"]
    assert _step(result, "INSPECT")["output"]["fields"] == {"key": 5, "value": 5}
