"""Texts as the package reads them: nesting of JSON, durations, Unicode's normal forms, forms of answers."""

import json
import re
import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.text.plain_text import about, duration, normalized, parse_duration
from kgqa_hpc.text.streams import DEEPEST, parse_json, too_deep
from kgqa_hpc.text.text_form import LONGEST, TextForm, read_form
from tests.foreign.watchdog import watched

JSON = st.recursive(
    st.none() | st.booleans() | st.text(alphabet='[]{}\\"a', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=3)
    ),
)


@given(JSON)
def test_what_is_not_deep_is_read_as_it_stands(value: object) -> None:
    text = json.dumps([value] * 70)
    assert parse_json(text) == parse_json(text.encode()) == [value] * 70


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"[":', "}]")])
def test_one_level_more_than_allowed_is_refused(opening: str, closing: str) -> None:
    levels = DEEPEST // (2 if len(opening) == 6 else 1)
    parse_json(opening * levels + "1" + closing * levels)
    with pytest.raises(orjson.JSONDecodeError, match="nested more than"):
        parse_json(opening * levels + "[1]" + closing * levels)


@pytest.mark.parametrize("piece", ["[", "[]", '"', '\\"', '"\\', '{"a":"', '["\\"[",', "]", '"["'])
def test_megabytes_take_linear_time(piece: str) -> None:
    data = piece.encode() * ((4 << 20) // len(piece))
    with watched(piece):
        too_deep(data)
        too_deep(b'"' + data)


DURATIONS = {
    "30s": 30,
    "15m": 900,
    "2h": 7200,
    "1.5d": 129_600,
    "00:10:00": 600,
    "2-00:00:00": 172_800,
    "90": 90,
    **dict.fromkeys(["soon", "12:30", "1:2:3:4", "", "2 weeks"]),  # two meanings, or none
}


@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_reads_like_slurm_and_like_people(text: str) -> None:
    if (seconds := DURATIONS[text]) is not None:
        assert parse_duration(text) == seconds
    else:
        with pytest.raises(ValueError, match="is not a duration"):
            parse_duration(text)


def test_durations_are_told_in_two_units_at_most_and_numbers_in_three_digits() -> None:
    seconds = (0, 3.66, 40, 600, 11_100, 90_000, 250_000, 1e9)
    told = ["0 s", "3.7 s", "40 s", "10 min", "3 h 5 min", "1 day 1 h", "2 days 21 h", "32 years"]
    assert [duration(number) for number in seconds] == told
    numbers = (57_600_002, 0.4028, 290, 0, 21.34, 999.9)
    assert [about(number) for number in numbers] == ["57,600,000", "0.403", "290", "0", "21.3", "1,000"]


MARKS = [word * 40 for word in ("症候群", "ต้นฉบับ", "e\u0301\u0316", "\u1100\u1161\u11a8")]


@given(st.text() | st.sampled_from(MARKS), st.sampled_from(["NFC", "NFKC"]))
def test_a_text_is_normalised_as_unicode_says(text: str, form: str) -> None:
    assert normalized(form, text) == unicodedata.normalize(form, text)


def test_a_million_accents_on_one_letter_take_linear_time() -> None:
    with watched():
        assert len(normalized("NFKC", "a" + "\u0301\u0316" * 500_000)) == 1_000_000


PATTERNS = [
    "^(Which|What|How) [^?]*[?]$",
    "^In (which|what) .+\\?$",
    "^.*[.!]$",
    "^(.|\\n)*[.!?…]$",
    '^(?:A|B \\(c\\))[^\\n"\\\\\\-\\]]+$',
    "^¿.*\\?$",
    "^[^/\\^b]*$",
]
TEXTS = st.one_of(
    st.text('AB(c) Which?.!…\n"\\-/^]b¿', max_size=12),
    st.sampled_from(["Which ", "In which ", "A", "B (c)", "¿"]).flatmap(
        lambda begin: st.text('ab?.!\n"\\/', max_size=6).map(lambda rest: begin + rest)
    ),
)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=TEXTS)
def test_a_form_holds_for_the_texts_that_its_pattern_matches(pattern: str, text: str) -> None:
    assert read_form(pattern).holds(text) == (re.fullmatch(pattern.rstrip("$"), text) is not None)


def test_a_form_says_how_it_begins_and_ends() -> None:
    assert read_form("^(Which|In which) [^?]+[?]$") == TextForm(("Which ", "In which "), "?", 1, "?")
    assert read_form("^(Which|In which) [^?]+[?]$").room == len("In which ") + 2


OTHERS = [
    "a+",
    ".*[?]",
    "^(.*)*$",
    "^(a|)b.*$",
    "^(Which|What)(ever)? .*$",
    "^[A-Z].*$",
    "^[^a-z]*$",
    "^\\w*$",
    "^.{3,9}$",
    '^Say "(a|b)".*$',
    "^.*[?]$\n",
    "^(a).*(b).*$",
    f"^{'a' * LONGEST}.*$",
    f"^{'(' * 200}.*$",
    "^.*[\\n]$",
]


@pytest.mark.parametrize("pattern", OTHERS)
def test_any_other_pattern_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern") as caught:
        read_form(pattern)
    assert "\n" not in str(caught.value)
