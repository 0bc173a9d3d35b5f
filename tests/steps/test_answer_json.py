"""A model's text gives the right fields or a reason from a small vocabulary, never a wrong field."""

import json
import time
from pathlib import Path

import pytest

from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.answer_json import LARGEST, REASONS, SALVAGEABLE, Unparseable, parse_json
from tests.by_path import load

PAIR = {key: {"type": "string", "minLength": 2, "maxLength": 60} for key in ("question", "answer")}
Q, A = "What does it bind?", "It binds iron."
GOOD = json.dumps({"question": Q, "answer": A})
DRAFT = json.dumps({"question": "A draft?", "answer": "A draft."})
EVIL = json.dumps({"question": "EVIL?", "answer": "EVIL!"})


def reason_of(text, fields=PAIR):
    with pytest.raises(Unparseable) as caught:
        parse_json(text, fields)
    beginning, colon, _ = caught.value.reason.partition(":")
    assert beginning + colon in REASONS
    return caught.value.reason


INTACT = [
    GOOD,
    f"  \n{GOOD}\n",
    f"```json\n{GOOD}\n```",
    f"```\n{GOOD}```",
    f"<think>\nI could say {DRAFT}.\n</think>\n{GOOD}",
    f"<think></think><think>again</think>\n\n```json\n{GOOD}\n```",
    f"I could say {DRAFT}.\n</think>\n{GOOD}",
    json.dumps({"answer": A, "question": Q}),
    json.dumps({"question": f" {Q}\n", "answer": A}, indent=4),
    GOOD.replace("iron", "\\u0069ron"),
]
FLAWED = [
    f"Here is the pair:\n{GOOD}\nI hope this helps!",
    f"Here is the pair:\n```json\n{GOOD}\n```\n**Changes made:** none.",
    f'Roles: {{"question node": 0, "answer node": 2}}. Final: {GOOD}',
    f"The set {{iron, zinc}} matters. {GOOD}",
    f"{GOOD}\n{GOOD}",
    GOOD[:-1] + ',"note": 1}',
    GOOD[:-1] + ",}",
    GOOD.replace('", "', '" "'),
    GOOD.replace('"', "'"),
    '{question: "What does it bind?", answer: "It binds iron."}',
    "{“question”: “What does it bind?”, “answer”: “It binds iron.”}",
]
EFFECT = '{"question": "What is the "Warburg" effect?", "answer": "Glycolysis,\ndespite oxygen."}'


@pytest.mark.parametrize(
    ("text", "pair", "repaired"),
    [
        *((text, (Q, A), False) for text in INTACT),
        *((text, (Q, A), True) for text in FLAWED),
        # Bare quotation marks and line breaks within a string.
        (EFFECT, ('What is the "Warburg" effect?', "Glycolysis,\ndespite oxygen."), True),
    ],
)
def test_an_object_is_read_through_thoughts_and_fences_and_a_flaw_without_doubt_mended_and_counted(
    text, pair, repaired
):
    parsed = parse_json(text, PAIR)
    assert tuple(parsed.value[name] for name in PAIR) == pair
    assert parsed.value.keys() == PAIR.keys()
    assert parsed.repaired == repaired


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ("<think>and I never came to an end", "empty"),
        ("<think>only this</think>", "empty"),
        ("I cannot help with that.", "not_json"),
        ("[]", "not_object"),
        (f"[{GOOD}]", "not_object"),
        ('"text"', "not_object"),
        ("null", "not_object"),
        (json.dumps(GOOD), "not_object"),
        ("{}", "missing:question"),
        (json.dumps({"question": Q}), "missing:answer"),
        (json.dumps({"pair": {"question": Q, "answer": A}}), "missing:question"),
        (json.dumps({"question": Q, "answer": 7}), "wrong_type:answer"),
        (json.dumps({"question": 7}), "wrong_type:question"),  # the first faulty field gives the reason
        (json.dumps({"answer": 7}), "missing:question"),
        (json.dumps({"question": Q, "answer": [A]}), "wrong_type:answer"),
        (json.dumps({"question": Q, "answer": None}), "wrong_type:answer"),
        (json.dumps({"question": Q, "answer": " "}), "empty:answer"),
        (json.dumps({"question": Q, "answer": "."}), "too_short:answer"),
        (json.dumps({"question": Q, "answer": "x" * 61}), "too_long:answer"),
        (json.dumps({"question": Q, "answer": "a\x00b"}), "not_text:answer"),
        ('{"question": "What?", "answer": "a\\ud800b"}', "not_text:answer"),
        ('{"question": "What?", "answer": "a\ud800b"}', "not_text:answer"),
        ('{"question": "What?", "answer": NaN}', "not_json"),
        ('{"question": "What?", "answer": -Infinity}', "not_json"),
        (GOOD[:-8], "truncated"),
        (GOOD[:-1], "truncated"),
        ('{"question": "The set {a}?", "answer": "It is', "truncated"),
        ('{"question": "What', "truncated"),
        ('```json\n{"question": "What', "truncated"),
        # An earlier object is not taken because the last one is unfinished.
        (f'{GOOD} no, better: {{"question": "Unfinished?"}}', "ambiguous"),
        ('{"question": "One?"} no, better: {"question": "Two?"}', "ambiguous"),
        ('Well: {"question": "One?"}', "missing:answer"),
        (GOOD + " " * LARGEST, "too_large"),
    ],
)
def test_what_is_no_answer_has_a_reason(text, reason):
    assert reason_of(text) == reason


# Two readings, or text that json-repair would drop or move.
DOUBTFUL = [
    f"{DRAFT} or rather {GOOD}",
    f"{GOOD} For example: {EVIL}",
    f'First: {{"question": "Half an idea?"}}. Final: {GOOD}',
    f"```json\n{DRAFT}\n```\nReflection.\n```json\n{GOOD}\n```",
    '{"question": "One?", "question": "Two?", "answer": "It binds iron."}',
    '{"question": "One?", "\\u0071uestion": "Two?", "answer": "It binds iron."}',
    'Text {"question": "One?", "question": "Two?", "answer": "It binds iron."}',
    f'{{"question": "What is {EVIL} here?", "answer": "Nothing."}}',
    f'{{"question": "a}} {EVIL} {{b", "answer": "Nothing."}}',
    f"{{ {EVIL}",
    f'"question": "One?" {GOOD}',
    '{"question": "One?", "answer": "a", "answer": "b",}',
    '{"question": 1, "question": "One?", "answer": "a"}',
    '{"question": "One?", "answer": 1, "answer": "a"}',
    '{"question": {"answer": "b"}, "question": "One?", "answer": "a"}',
    '{"question": "One?", "answer": "a", "\\u0061nswer": "b"}',
    '{"question": "One?", "answer": "a", "answer" : "a"}',
    '{"question": "One?", "answer": "It is "that", "note": "and more",}',
    '{"question": "One?" and "answer": It binds iron.,}',
    '{"question": "One?", "answer": "x" // really\n}',
    '{"question": "One?", "answer": "x", "y"}',
]


@pytest.mark.parametrize("text", DOUBTFUL)
def test_what_has_two_readings_or_would_lose_text_is_refused(text):
    assert reason_of(text) in ("ambiguous", "not_json")


def test_a_field_that_fills_its_bound_is_reported():
    text = json.dumps({"question": Q, "answer": "x" * 60})
    assert parse_json(text, PAIR).filled == ("answer",)
    assert parse_json(GOOD, PAIR).filled == ()


VERDICT = {"question_reasoning": "Sound.", "valid_question": True, "my_answer": "Iron."}
VERDICT |= {"answer_reasoning": "Same.", "original_answer_valid": False}


def test_verdicts_are_booleans_and_nothing_else():
    fields = load_prompt("filter").schema["properties"]
    assert parse_json(json.dumps(VERDICT), fields).value == VERDICT
    for other in ("true", 1, None, "yes", [True]):
        text = json.dumps({**VERDICT, "valid_question": other})
        assert reason_of(text, fields) == "wrong_type:valid_question"
    python_like = json.dumps(VERDICT).replace("true", "True").replace("false", "False")
    assert parse_json(python_like, fields).value == VERDICT


NUMBERS = {
    "score": {"type": "integer", "minimum": 1, "maximum": 5},
    "share": {"type": "number"},
    "kind": {"type": "string", "enum": ["a", "b"]},
}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"score": 6}, "not_allowed:score"),
        ({"score": 1.5}, "wrong_type:score"),
        ({"score": True}, "wrong_type:score"),
        ({"kind": "c"}, "not_allowed:kind"),
    ],
)
def test_numbers_and_choices_are_checked(changes, reason):
    good = {"score": 3, "share": 0.5, "kind": "a"}
    assert parse_json(json.dumps(good), NUMBERS).value == good
    assert reason_of(json.dumps({**good, **changes}), NUMBERS) == reason


LARGE = {"9" * 18: 10**18 - 1, "18446744073709551615": 2**64 - 1, "1" + "0" * 25: 1e25}


@pytest.mark.parametrize("number", [*LARGE, "1e400", "9" * 400])
@pytest.mark.parametrize("form", ['{{"share": {}}}', 'Here it is: {{"share": {}}}', '{{"share": {},}}'])
def test_a_number_that_a_record_cannot_hold_is_a_float_or_refused(form, number):
    fields, read = {"share": {"type": "number"}}, LARGE.get(number)
    if read is None:
        assert reason_of(form.format(number), fields) == "not_json"
    else:
        value = parse_json(form.format(number), fields).value["share"]
        assert (value, type(value)) == (read, type(read))
    assert reason_of(form.format("1" + "0" * 25), {"share": {"type": "integer"}}) == "wrong_type:share"


def test_a_whole_schema_says_the_same_as_its_properties():
    odd = {"properties": {"type": "string"}, "type": {"type": "string"}}
    for fields, text in ((PAIR, GOOD), (odd, '{"properties": "a", "type": "b"}')):
        assert parse_json(text, {"type": "object", "properties": fields}) == parse_json(text, fields)


def test_a_string_without_a_bound_is_read_too():
    assert parse_json('{"question": ""}', {"question": {"type": "string"}}).value == {"question": ""}


BENCH = load(Path(__file__).parents[2] / "tools" / "bench_answers.py")
HUGE = {name: make(BENCH.LONGEST) for name, make in BENCH.FAMILIES.items()} | {
    "a string of 10 MB": '{"question": "' + "x" * 10_000_000 + '", "answer": "y"}',
    "10 MB of braces": "{" * 10_000_000,
    "a long string": '{"question": "' + "x" * 900_000 + '", "answer": "y"}',
    "open lists": "[" * 900_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_and_hostile_texts_are_refused_in_bounded_time(name):
    assert len(HUGE[name]) > 0.99 * SALVAGEABLE
    began = time.process_time()
    if name in ("an honest answer", "spaces around quotes"):
        assert parse_json(HUGE[name], BENCH.PAIR).value
    else:
        reason_of(HUGE[name])
    # Most take milliseconds; the bound is wide because it is there to catch quadratic and endless ones.
    assert time.process_time() - began < 20
