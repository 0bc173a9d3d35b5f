"""A quote is in the document or it is not: planted true, altered and foreign snippets."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kgqa_hpc.plugins.literature.document import QuotableText, sentences
from tests.foreign.watchdog import watched

TEXT = "We found that TP53 – the ‘guardian’ –\nbinds  DNA (P<0.001). It is ﬁne in naïve cells; 10² times."


@pytest.mark.parametrize(
    ("snippet", "found"),
    [
        ("TP53 - the 'guardian' - binds DNA", "TP53 – the ‘guardian’ –\nbinds  DNA"),
        ('"we found that tp53..."', "We found that TP53"),
        ("P<0.001", "P<0.001"),
        ("it is fine in nai\u0308ve cells", "It is ﬁne in naïve cells"),
        ("binds DNA (P<0.01)", None),
        ("P<0.00", None),
        ("TP5", None),
        ("P53", None),
        ("binds RNA", None),
        ("102 times", None),
        ("binds DNA … in naïve cells", None),
        ("", None),
        (" ... ", None),
    ],
)
def test_only_what_copying_changes_is_forgiven(snippet: str, found: str | None) -> None:
    quote = QuotableText(TEXT).find(snippet)
    assert (quote.text if quote else None) == found
    if quote:
        assert TEXT[quote.start : quote.end] == quote.text


@given(st.text(max_size=80), st.integers(0, 80), st.integers(0, 80))
def test_whatever_is_cut_out_at_word_boundaries_is_found(text: str, start: int, end: int) -> None:
    padded = f"{text} planted words {text}"
    snippet = padded[start : len(text) + 14 + end]
    assume(start <= len(text) and "planted words" in snippet)
    quote = QuotableText(padded).find(" planted words ")
    assert quote is not None
    assert quote.text.lower() == "planted words"
    whole = QuotableText(padded).find(padded)
    assert whole is not None


@given(st.text(max_size=60), st.text(min_size=1, max_size=20))
def test_a_quote_says_where_it_stands(text: str, snippet: str) -> None:
    quote = QuotableText(text).find(snippet)
    if quote is not None:
        assert text[quote.start : quote.end] == quote.text
        assert QuotableText(text).find(quote.text) is not None


def test_a_letter_with_a_hundred_thousand_accents_is_quoted_in_linear_time() -> None:
    with watched():
        QuotableText("a" + "\u0301\u0316" * 50_000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ATP7B carries copper. It carries no iron!", ["ATP7B carries copper.", "It carries no iron!"]),
        ("AIM: One.\nTwo (P < 0.05). 3 of 4.", ["AIM: One.", "Two (P < 0.05).", "3 of 4."]),
        ("E. coli vs. S. Aureus (Fig. 2), e.g. I. Two", ["E. coli vs. S. Aureus (Fig. 2), e.g. I. Two"]),
        ("We saw E. coli (Fig. 2), e.g. Once. Twice", ["We saw E. coli (Fig. 2), e.g. Once.", "Twice"]),
        ("So (as said.) Then \u201cno.\u201d Later", ["So (as said.)", "Then \u201cno.\u201d", "Later"]),
        ("no full stop and\n\n no sentence ", ["no full stop and", "no sentence"]),
        (" \n ", []),
        ("", []),
    ],
)
def test_a_text_is_cut_where_a_sentence_ends_and_at_no_abbreviation(text: str, found: list[str]) -> None:
    assert [sentence.text for sentence in sentences(text)] == found


@given(st.text(st.sampled_from(' \n.?)"aABé1'), max_size=80))
def test_sentences_are_the_whole_text_in_order_each_where_it_says(text: str) -> None:
    end = 0
    for sentence in sentences(text):
        assert not text[end : sentence.start].strip()
        assert sentence.text == text[sentence.start : sentence.end] == sentence.text.strip() != ""
        end = sentence.end
    assert not text[end:].strip()
