"""The three examples of the guide run to their end and give what was counted by hand."""

from __future__ import annotations

from collections.abc import Callable

from kgqa_hpc.plugins.gasl.execute import Result

AUTHORS = """
FIND nodes with entity_type=PERSON AS people   # how often each author name stands in the graph
PROCESS people with instruction: Name of the person, first name first AS names
ADD_FIELD people field: author_name = names
COUNT people field author_name AS histogram
"""
MEETINGS = """
FIND nodes with entity_type=EVENT AS events    # people and events in one table of names
PROCESS events with instruction: Name of the person, first name first AS speakers
ADD_FIELD events field: author_name = speakers
JOIN people with events on author_name AS combined
COUNT combined field author_name AS unified
"""
PAIRS = """
FIND edges with relationship_name=COLLABORATION AS joint   # who works with whom, most often first
PROCESS joint with instruction: Both names by alphabet, with & between AS couples
ADD_FIELD joint field: pair = couples
COUNT joint field pair AS pair_counts
RANK pair_counts by count order desc AS ranking
"""


def test_author_names_are_counted(run: Callable[..., Result]) -> None:
    result = run(AUTHORS)
    assert result.status == "success"
    assert result.variables["histogram"] == {"Ana Ruiz": 2, "Ben Okoye": 1}


def test_people_and_events_are_joined_by_name(run: Callable[..., Result]) -> None:
    result = run(AUTHORS + MEETINGS)
    assert result.status == "success"
    pairs = [(item["id"], item["id_1"]) for item in result.variables["combined"]]
    assert pairs == [("p1", "e1"), ("p2", "e2"), ("p3", "e1")]
    assert result.variables["unified"] == {"Ana Ruiz": 2, "Ben Okoye": 1}


def test_pairs_who_work_together_are_ranked(run: Callable[..., Result]) -> None:
    result = run(PAIRS)
    assert result.status == "success"
    assert result.variables["ranking"] == [
        {"key": "Ana Ruiz & Ben Okoye", "value": 2},
        {"key": "A. Ruiz & Ben Okoye", "value": 1},
    ]
