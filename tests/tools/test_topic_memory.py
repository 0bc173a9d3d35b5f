"""tools/topic_memory.py: what a writer with favourites asks about, with topic memory and without."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.by_path import load


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load(Path(__file__).parents[2] / "tools" / "topic_memory.py")


def test_questions_repeat_fewer_topics_with_memory(
    tool: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["topic_memory.py", "--number", "150", "--memory", "0", "20"])
    tool.main()
    rows = [line.rsplit(maxsplit=2) for line in capsys.readouterr().out.splitlines()[2:]]
    table = {name: (float(without), float(with_memory)) for name, without, with_memory in rows}
    assert table["questions"] == (150, 150)
    assert table["topics, different / all"][1] > table["topics, different / all"][0]
    assert table["a topic of the 20 before"][1] < table["a topic of the 20 before"][0]


def test_a_repeat_is_a_topic_of_the_questions_just_before(tool: ModuleType) -> None:
    subjects = [{"bone"}, {"skin"}, set(), {"bone", "ear"}, {"skin"}]
    assert tool.repeats(subjects, window=3) == 0.5  # bone after three, skin after three; of four with a topic
    assert tool.repeats(subjects, window=2) == 0
