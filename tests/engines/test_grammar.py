"""Our grammars: what they allow follows the schema, and always ends."""

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kgqa_hpc.engines.grammar import ebnf
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.check import Check
from kgqa_hpc.steps.step import Done
from kgqa_hpc.testing import item, run_step
from tests.engines.asking import valid

SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "minLength": 12, "maxLength": 60},
            "answer": {"type": "string", "maxLength": 80},
        },
        "required": ["question", "answer"],
    },
    {
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 12,
                "maxLength": 40,
                "pattern": '^(Which|¿What|In what) [^?."]*[?]$',
            },
            "answer": {"type": "string", "maxLength": 5, "pattern": "^It .+[.!]$"},
            "note": {"type": "string", "maxLength": 30, "pattern": "^(.|\\n)+$"},
        },
    },
    {"type": "object", "properties": {'a "b\\ é': {"type": "boolean"}, "n": {"type": "integer"}}},
    {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "string", "enum": ["yes", "no", 'a"b', "é"]}, "maxItems": 3},
    {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "minItems": 1, "maxItems": 9},
    {"type": "array", "items": {"type": "number", "minimum": 3, "maximum": 3}, "maxItems": 0},
    {
        "type": "object",
        "properties": {
            "nodes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"id": {"type": "integer"}, "w": {"type": "number"}},
                },
            }
        },
    },
]


Phrase = Callable[[], str]


class Speaker:
    """Speaks a random sentence of a GBNF grammar, or a longest one: an independent reading of the notation."""

    def __init__(self, grammar: str, rng: random.Random, most: bool = False) -> None:
        self.rules = dict(line.split(" ::= ", 1) for line in grammar.split("\n"))
        self.parsed: dict[str, Phrase] = {}
        self.rng = rng
        self.most = most

    def say(self, rule: str = "root") -> str:
        if rule not in self.parsed:
            self.parsed[rule], rest = self._alternatives(self.rules[rule])
            assert rest == ""
        return self.parsed[rule]()

    def _alternatives(self, body: str) -> tuple[Phrase, str]:
        """A choice among the alternatives of `body`, up to its end or a closing parenthesis."""
        options: list[Phrase] = []
        while not options or body.startswith("| "):
            option, body = self._sequence(body.removeprefix("| "))
            options.append(option)
        if self.most:
            return (lambda: max((option() for option in options), key=len)), body
        return (lambda: self.rng.choice(options)()), body

    def _sequence(self, body: str) -> tuple[Phrase, str]:
        parts: list[tuple[Phrase, int, int]] = []
        while body and body[0] not in "|)":
            item, after = self._item(body)
            low, high, body = self._repeat(after)
            parts.append((item, low, high))
            body = body.lstrip(" ")

        def phrase() -> str:
            counts = [high if self.most else self.rng.randint(low, high) for _, low, high in parts]
            return "".join(
                item() for (item, _, _), count in zip(parts, counts, strict=True) for _ in range(count)
            )

        return phrase, body

    def _item(self, body: str) -> tuple[Phrase, str]:
        if body[0] == '"':
            literal, end = json.JSONDecoder().raw_decode(body)
            return (lambda: literal), body[end:]
        if body[0] == "[":
            match = re.match(r"\[(\^?)((?:\\.|[^\]\\])*)\]", body)
            assert match is not None
            options = allowed(match[1] == "^", match[2])
            longest_one = max(options, key=lambda c: len(c.encode()))
            return (lambda: longest_one if self.most else self.rng.choice(options)), body[match.end() :]
        if body[0] == "(":
            inner, rest = self._alternatives(body[1:])
            return inner, rest[1:]
        match = re.match(r"[a-z0-9]+", body)
        assert match is not None, body
        name = match[0]
        return (lambda: self.say(name)), body[match.end() :]

    @staticmethod
    def _repeat(body: str) -> tuple[int, int, str]:
        if body.startswith("?"):
            return 0, 1, body[1:]
        if match := re.match(r"\{(\d+),(\d+)\}", body):
            return int(match[1]), int(match[2]), body[match.end() :]
        return 1, 1, body


@cache
def allowed(negated: bool, content: str) -> list[str]:
    """Characters of a class, some of each kind."""
    one = re.compile(f"[{'^' if negated else ''}{content}]")
    pool = [chr(c) for c in range(32, 127)] + ["é", "β", "漢", "😀", "\n", "\t", "\x7f"]
    return [c for c in pool if one.match(c)]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_sentence_is_json_that_follows_the_schema_and_is_short_enough(
    schema: dict[str, Any], ascii_only: bool
) -> None:
    grammar = ebnf(schema, ascii_only=ascii_only)
    ceiling = len(Speaker(grammar, random.Random(0), most=True).say().encode())
    for seed in range(60):
        text = Speaker(grammar, random.Random(seed)).say()
        assert len(text.encode()) <= ceiling
        value = json.loads(text, parse_constant=pytest.fail)
        assert valid(value, schema), text


def test_a_pattern_and_maxlength_bind_together_whichever_way_a_text_begins() -> None:
    schema = {"type": "string", "minLength": 20, "maxLength": 30, "pattern": "^(How|In which) [^?]*[?]$"}
    texts = [
        json.loads(Speaker(ebnf(schema), random.Random(seed), most=most).say())
        for most in (True, False)
        for seed in range(100)
    ]
    assert {len(text) for text in texts} == set(range(20, 31))
    assert {text.split(" ")[0] for text in texts} == {"How", "In"}
    assert all(text.endswith("?") and "?" not in text[:-1] for text in texts)


@pytest.mark.parametrize("name", ["demo", "p1_1", "p3_5", "p4_5", "p5", "hub"])
def test_every_string_of_a_shipped_prompts_grammar_passes_the_checks_rules_of_form(name: str) -> None:
    """Whatever a model writes under it: the check finds no text that is no question or no sentence."""
    fields = load_prompt(name).schema["properties"]
    for seed in range(100):
        question, answer = (
            json.loads(Speaker(ebnf(fields[key], ascii_only=bool(seed % 2)), random.Random(seed)).say())
            for key in ("question", "answer")
        )
        pair = item(question=question.strip(), answer=answer.strip())
        outcome = run_step(Check, pair, reject=["same_text", "no_question", "no_sentence"])
        assert outcome == Done(), (question, answer)


def test_a_string_without_a_bound_gets_one_and_one_beyond_what_llama_cpp_takes_is_lowered() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "char{0,400}" in ebnf(schema)
    assert "char{0,1999}" in ebnf({"type": "string", "maxLength": 10_000})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3},
        {"type": "integer", "minimum": 0, "maximum": 10**6},
        {"type": "number", "minimum": 0.5, "maximum": 1},
        {"type": "integer", "minimum": -3, "maximum": 3},
        {"type": "string", "pattern": "a+"},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {"type": "set"}}},
        {"$ref": "#/$defs/x"},
    ],
)
def test_what_a_grammar_cannot_keep_is_refused_not_ignored(schema: dict[str, Any]) -> None:
    with pytest.raises(EngineConfigError, match=r"cannot be enforced|no grammar for it"):
        ebnf(schema)
