"""Long, hostile and unusual texts of scripts; the faults of ordinary scripts are rows of conformance.txt."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.language import distance, nearest
from kgqa_hpc.plugins.gasl.parser import MAX_BYTES, parse, read_script
from tests.foreign.watchdog import watched

WORDS = st.text("abcAB_", max_size=8)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("FIND nodes WHERE name matches '" + "a" * 201 + "'", ("syntax", 1, 31)),
        ("SET x = " + "[" * 51 + "]" * 51, ("limit", 1, 1)),
        ("FIND nodes WITH " + "(" * 51 + "a=1" + ")" * 51, ("limit", 1, 1)),
        ("COUNT x\n" * 1001, ("limit", 1001, 1)),
        ("#" * 262145, ("limit", 1, 1)),
        ('SET x = ["' + "a" * 65536 + '"]', ("limit", 1, 1)),
        ('{"commands": [], "x": ' + "[" * 60 + "]" * 60 + "}", ("limit", 1, 1)),
        (r'{"commands": ["SET x = \"\ud83d\""]}', ("syntax", 1, 1)),
        (r'{"commands": ["SET x = \"\ud83d\ude00\""]}', None),
        ("SET x = " + "[" * 50 + "]" * 50, None),
        ("COUNT x\n" * 1000, None),
        ("#" * 262144, None),
        ("TRY {" * 50 + "COUNT x" + "}; FINALLY COUNT x" * 50, None),
        ("ADD_FIELD a FIELD: b = " + "-" * 20000 + "1", None),
        ("FIND nodes WITH " + "NOT " * 20000 + "a=1", None),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else None,
)
def test_limits_of_a_text_are_exact(text: str, problem: tuple[str, int, int] | None) -> None:
    problems = [(p.kind, *(p.place or ())) for p in read_script(text.encode())[1]]
    assert problems == ([problem] if problem else [])


def test_commands_end_at_line_ends_of_every_system_and_a_byte_that_is_no_text_has_a_position() -> None:
    statements = parse(b"\xef\xbb\xbfSET a = 1\r\nSET b = 2\rSET c = 3").statements
    assert [statement.place for statement in statements] == [(1, 1), (2, 1), (3, 1)]  # type: ignore[union-attr]
    assert [(p.kind, p.place) for p in read_script(b"COUNT x\nab\xff")[1]] == [("syntax", (2, 3))]


@pytest.mark.parametrize("piece", ['"', '\\"', "{{", "a "])
def test_a_script_of_a_model_is_read_in_linear_time(piece: str) -> None:
    for beginning in ("", 'FIND "'):
        script = (beginning + piece * (MAX_BYTES // len(piece)))[:MAX_BYTES]
        with watched(piece), suppress(ScriptError):
            parse(script.encode())


def slow_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        above, row = row, [i]
        for j, b in enumerate(right, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]


@given(WORDS, WORDS, st.integers(0, 3), st.lists(WORDS))
def test_the_nearest_word_is_the_first_by_exact_distance_then_alphabet(
    word: str, other: str, limit: int, candidates: list[str]
) -> None:
    assert distance(word, other, limit) == min(slow_distance(word, other), limit + 1)
    far = [(slow_distance(word.lower(), candidate.lower()), candidate) for candidate in candidates]
    near = [pair for pair in far if pair[0] <= 2 and pair[0] < len(word)]
    assert nearest(word, candidates) == (min(near)[1] if near else None)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_text_in_quotes_is_read_as_that_text(text: str) -> None:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\u000d"}
    written = "".join(escapes.get(letter, letter) for letter in text)
    (statement,) = parse(f'SET x = "{written}"'.encode()).statements
    assert statement.command.arguments[1] == text  # type: ignore[union-attr]
