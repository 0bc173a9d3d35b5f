"""Strings come back as they were written, and the word that was meant is the nearest one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.plugins.gasl.commands import Set, Simple
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.words import distance, nearest

WORDS = st.text("abcAB_", max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def slow_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        above, row = row, [i]
        for j, b in enumerate(right, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]


@given(WORDS, WORDS, st.integers(0, 3))
def test_the_distance_is_exact_within_its_limit(left: str, right: str, limit: int) -> None:
    assert distance(left, right, limit) == min(slow_distance(left, right), limit + 1)


@given(WORDS, st.lists(WORDS))
def test_the_nearest_word_is_the_first_by_distance_then_alphabet(word: str, candidates: list[str]) -> None:
    far = [(slow_distance(word.lower(), each.lower()), each) for each in candidates]
    fitting = [pair for pair in far if pair[0] <= 2 and pair[0] < len(word)]
    assert nearest(word, candidates) == (min(fitting)[1] if fitting else None)


@given(TEXTS)
def test_a_text_in_quotes_is_read_as_that_text(text: str) -> None:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\u000d"}
    written = "".join(escapes.get(letter, letter) for letter in text)
    statement = parse(f'SET x = "{written}"'.encode()).statements[0]
    assert isinstance(statement, Simple)
    assert isinstance(statement.command, Set)
    assert statement.command.value == text
