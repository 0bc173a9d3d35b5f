"""Retrieve and ground: documents come from the index, quotes from the documents or not at all."""

import json
from typing import Any

import pytest

from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Ask, Done, Reject, Retry, Step
from tests.record_runs import chain_of, item_of, stop

TEXT = "ATP7B carries copper\nout of liver cells (P<0.001). It does not carry iron."


def grounding(**settings: Any) -> list[Step]:
    return chain_of({"use": "retrieve", "k": 3}, {"use": "ground", "k": 3, **settings})


@pytest.fixture
def pair() -> Item:
    return item_of(question="What carries copper?", answer="ATP7B.")


def reading(pair: Item, *texts: str, **settings: Any) -> Step:
    """The step `ground` before a pair for which these texts were found."""
    retrieve, ground = grounding(**settings)
    assert isinstance(retrieve.take(pair, stop(hits(*texts)), 0), Done)
    return ground


def hits(*texts: str) -> str:
    fields = ({"id": str(n), "score": 9.5 - n, "title": f"Title {n}"} for n in range(len(texts)))
    documents = [{**entry, "text": text} for entry, text in zip(fields, texts, strict=True)]
    return json.dumps({"documents": documents})


def said(relevant: bool, *snippets: str) -> str:
    return json.dumps({"reasoning": "So.", "relevant": relevant, "snippets": list(snippets)})


def test_the_query_is_question_and_answer_and_k_is_in_the_schema(pair: Item) -> None:
    request = grounding()[0].request(pair, 0)
    assert request.messages[-1]["content"] == "What carries copper? ATP7B."
    assert request.schema is not None
    assert request.schema["properties"]["documents"]["maxItems"] == 3


def test_documents_are_read_one_by_one_and_real_quotes_get_their_place(pair: Item) -> None:
    ground = reading(pair, TEXT, "Nothing here.")
    assert "carries" not in pair.trace[0]["text"]
    assert ground.asks_about(pair)
    assert "Text: ATP7B carries copper out of" in ground.request(pair, 0).messages[1]["content"]
    quotes = ("ATP7B carries copper out of liver cells", "p<0.001")
    assert isinstance(ground.take(pair, stop(said(True, *quotes)), 0), Ask)
    assert "Title: Title 1" in ground.request(pair, 0, 1).messages[1]["content"]
    assert isinstance(ground.take(pair, stop(said(False)), 0, 1), Done)
    first, second = pair.output["documents"]
    texts = [snippet["text"] for snippet in first["snippets"]]
    assert texts == ["ATP7B carries copper\nout of liver cells", "P<0.001"]
    assert [TEXT[snippet["start"] : snippet["end"]] for snippet in first["snippets"]] == texts
    assert (second["relevant"], second["snippets"]) == (False, [])
    assert pair.annotations == {"quotes_kept": 2, "quotes_dropped": 0, "relevant_documents": 1}


@pytest.mark.parametrize("planted", ["ATP7B carries iron out of liver cells", "Ferritin stores iron"])
def test_altered_and_foreign_quotes_are_dropped_and_counted(pair: Item, planted: str) -> None:
    ground = reading(pair, TEXT)
    ground.take(pair, stop(said(True, planted, "carries copper")), 0)
    assert [quote["text"] for quote in pair.output["documents"][0]["snippets"]] == ["carries copper"]
    assert pair.annotations["quotes_dropped"] == 1


def test_a_pair_without_documents_is_asked_nothing_and_has_no_support(pair: Item) -> None:
    ground = reading(pair)
    assert not ground.asks_about(pair)
    assert isinstance(ground.run(pair), Done)
    assert pair.annotations["relevant_documents"] == 0


def test_no_more_than_k_documents_are_read_and_too_little_support_rejects(pair: Item) -> None:
    ground = reading(pair, TEXT, TEXT, k=1, minimum=1)
    assert ground.take(pair, stop(said(False)), 0) == Reject("ground: too few relevant documents")
    assert "relevant" not in pair.output["documents"][1]


def test_an_unreadable_answer_asks_about_the_same_document_again(pair: Item) -> None:
    ground = reading(pair, TEXT, TEXT)
    before = ground.request(pair, 0).messages
    assert isinstance(ground.take(pair, stop("no idea"), 0), Retry)
    assert ground.request(pair, 1).messages == before


def test_sentences_named_by_number_are_quotes_and_the_schema_knows_no_others(pair: Item) -> None:
    ground = reading(pair, TEXT, prompt="ground_sentences")
    request = ground.request(pair, 0)
    assert "1. ATP7B carries copper\n2. out of liver" in request.messages[1]["content"]
    assert request.schema is not None
    snippets = request.schema["properties"]["snippets"]
    assert (snippets["items"]["minimum"], snippets["items"]["maximum"], snippets["maxItems"]) == (1, 3, 3)
    numbers = {"reasoning": "So.", "relevant": True, "snippets": [3, 1, 3, 7]}
    assert isinstance(ground.take(pair, stop(json.dumps(numbers)), 0), Done)
    quotes = pair.output["documents"][0]["snippets"]
    assert [quote["text"] for quote in quotes] == ["ATP7B carries copper", "It does not carry iron."]
    assert [TEXT[quote["start"] : quote["end"]] for quote in quotes] == [quote["text"] for quote in quotes]
    assert (pair.annotations["quotes_kept"], pair.annotations["quotes_dropped"]) == (2, 1)


def test_documents_with_as_many_sentences_have_the_very_same_schema(pair: Item) -> None:
    """An engine compiles a grammar when it first sees it; there are as many as numbers of sentences."""
    ground = reading(pair, TEXT, "One. Two. Three.", prompt="ground_sentences")
    first = ground.request(pair, 0).schema
    ground.take(pair, stop(said(False)), 0)
    assert ground.request(pair, 0, 1).schema is first


def test_a_document_without_a_text_has_no_number_to_name(pair: Item) -> None:
    schema = reading(pair, "", prompt="ground_sentences").request(pair, 0).schema
    assert schema is not None
    assert schema["properties"]["snippets"]["maxItems"] == 0
