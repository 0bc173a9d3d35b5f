"""Our grammars: what they allow follows the schema, and always ends."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from kgqa_hpc.engines.grammar import ebnf, longest
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.check import CheckSettings, _findings

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


class Speaker:
    """Speaks a random sentence of a GBNF grammar: an independent reading of the notation."""

    def __init__(self, grammar: str, rng: random.Random, most: bool = False) -> None:
        self.rules = dict(line.split(" ::= ", 1) for line in grammar.split("\n"))
        self.rng = rng
        self.most = most

    def say(self, rule: str = "root") -> str:
        text, rest = self._alternatives(self.rules[rule])
        assert rest == ""
        return text

    def _alternatives(self, body: str) -> tuple[str, str]:
        """One of the alternatives of `body`, up to its end or a closing parenthesis."""
        options: list[str] = []
        while True:
            text, body = self._sequence(body)
            options.append(text)
            if not body.startswith("| "):
                break
            body = body[2:]
        return (max(options, key=len) if self.most else self.rng.choice(options)), body

    def _sequence(self, body: str) -> tuple[str, str]:
        parts: list[str] = []
        while body and body[0] not in "|)":
            parts.append("")
            item, after = self._item(body)
            low, high, body = self._repeat(after)
            count = high if self.most else self.rng.randint(low, high)
            parts[-1] = "".join(item() for _ in range(count))
            body = body.lstrip(" ")
        return "".join(parts), body

    def _item(self, body: str) -> tuple[Callable[[], str], str]:
        if body[0] == '"':
            literal, end = json.JSONDecoder().raw_decode(body)
            return (lambda: literal), body[end:]
        if body[0] == "[":
            found = re.match(r"\[(\^?)((?:\\.|[^\]\\])*)\]", body)
            assert found is not None
            return (lambda: self._character(found[1] == "^", found[2])), body[found.end() :]
        if body[0] == "(":
            _, rest = self._alternatives(body[1:])
            inner = body[1 : len(body) - len(rest)]
            return (lambda: self._alternatives(inner)[0]), rest[1:]
        found = re.match(r"[a-z0-9]+", body)
        assert found is not None, body
        return (lambda: self.say(found[0])), body[found.end() :]

    @staticmethod
    def _repeat(body: str) -> tuple[int, int, str]:
        if body.startswith("?"):
            return 0, 1, body[1:]
        if found := re.match(r"\{(\d+),(\d+)\}", body):
            return int(found[1]), int(found[2]), body[found.end() :]
        return 1, 1, body

    def _character(self, negated: bool, content: str) -> str:
        options = allowed(negated, content)
        return max(options, key=lambda c: len(c.encode())) if self.most else self.rng.choice(options)


@cache
def allowed(negated: bool, content: str) -> list[str]:
    """Characters of a class, some of each kind."""
    one = re.compile(f"[{'^' if negated else ''}{content}]")
    pool = [chr(c) for c in range(32, 127)] + ["é", "β", "漢", "😀", "\n", "\t", "\x7f"]
    return [c for c in pool if one.match(c)]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@pytest.mark.parametrize("ascii_only", [True, False])
def test_every_sentence_is_json_that_follows_the_schema_and_is_short_enough(
    schema: dict[str, Any], ascii_only: bool, valid: Callable[[Any, dict[str, Any]], bool]
) -> None:
    grammar = ebnf(schema, ascii_only=ascii_only)
    ceiling = longest(schema, ascii_only=ascii_only)
    for seed in range(60):
        text = Speaker(grammar, random.Random(seed)).say()
        assert len(text.encode()) < ceiling
        value = json.loads(text, parse_constant=pytest.fail)
        assert valid(value, schema), text


@pytest.mark.parametrize("schema", SCHEMAS[:6], ids=range(6))
def test_the_ceiling_is_no_wild_guess(schema: dict[str, Any]) -> None:
    text = Speaker(ebnf(schema, ascii_only=True), random.Random(0), most=True).say()
    assert len(text.encode()) < longest(schema, ascii_only=True) <= 2 * len(text.encode()) + 40


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
        settings = CheckSettings.model_validate({"use": "check", "as": "check"})
        assert not _findings(question.strip(), answer.strip(), {}, settings), (question, answer)


def test_a_string_without_a_bound_gets_one() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert "char{0,400}" in ebnf(schema)
    assert longest(schema, ascii_only=True) < 420


def test_a_bound_beyond_what_llama_cpp_takes_is_lowered() -> None:
    assert "char{0,1999}" in ebnf({"type": "string", "maxLength": 10_000})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3},
        {"type": "integer", "minimum": 0, "maximum": 10**6},
        {"type": "number", "minimum": 0.5, "maximum": 1},
        {"type": "integer", "minimum": -3, "maximum": 3},
    ],
)
def test_bounds_that_a_grammar_cannot_keep_are_refused_not_ignored(schema: dict[str, Any]) -> None:
    with pytest.raises(EngineConfigError, match="cannot be enforced"):
        ebnf(schema)
