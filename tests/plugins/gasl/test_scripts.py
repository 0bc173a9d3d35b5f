"""Questions from scripts carry the script, and their answer is what it gives when it is run again."""

from typing import Any

import pytest

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.plugins.gasl.execute import execute
from kgqa_hpc.plugins.gasl.graph import from_run
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.script import answers_of
from tests.families.conftest import draw, random_graph

COUNT = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one FOLLOW hits DIRECTION out AS near\nCOUNT near AS answer"
NAMES = "FIND nodes WITH id=<entity> AS one\nGRAPHWALK FROM one AS near\nSELECT near FIELDS name AS answer"


def template(name: str, script: str) -> dict[str, str]:
    return {"name": name, "script": script, "entity": "gene", "asks": "something"}


def test_every_answer_is_what_its_script_gives_when_it_is_run_again() -> None:
    """That it is what the graph holds: tests/families/test_whole_graph.py."""
    graph = random_graph(3, 80, 300)
    anchors = draw(graph, "script", number=40, scripts=[template("count", COUNT), template("names", NAMES)])
    assert {anchor.group for anchor in anchors} == {"count", "names"}
    for anchor in anchors:
        result = execute(parse(anchor.data["script"].encode()), from_run(graph, ""))
        assert answers_of(result.variables["answer"]) == anchor.data["answers"]


def test_a_script_that_cannot_be_read_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(ConfigError, match=r"anchors\.scripts wrong line 1"):
        draw(random_graph(3, 20, 40), "script", scripts=[template("wrong", "FIDN nodes AS answer")])


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        (3, ["3"]),
        ("gene", ["gene"]),
        ([{"key": "b", "value": 2}, {"key": "a", "value": 1}], ["a", "b"]),
        ([{"id": "N1"}], []),
        ({"a": 1}, []),
        (True, []),
        (None, []),
        ([], []),
    ],
)
def test_numbers_texts_and_named_items_are_answers(value: Any, answers: list[str]) -> None:
    assert answers_of(value) == answers
