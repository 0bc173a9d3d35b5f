"""Our grammars: what they allow follows the schema, and always ends."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgqa_hpc.engines.grammar import LONGEST_PATTERN, TextForm, ebnf, read_form
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.prompts.prompt import load_prompt
from kgqa_hpc.steps.check import Check
from kgqa_hpc.steps.step import Done
from kgqa_hpc.testing import item, run_step
from tests.engines.asking import BOOLEAN, TEXT, an_object, valid

SCHEMAS: list[dict[str, Any]] = [
    an_object(
        question={"type": "string", "minLength": 12, "maxLength": 60}, answer={"type": "string", "maxLength": 80}
    ),
    an_object(
        question={
            "type": "string", "minLength": 12, "maxLength": 40, "pattern": '^(Which|¿What|In what) [^?."]*[?]$'
        },
        answer={"type": "string", "maxLength": 5, "pattern": "^It .+[.!]$"},
        note={"type": "string", "maxLength": 30, "pattern": "^(.|\\n)+$"},
    ),
    an_object(**{'a "b\\ é': BOOLEAN, "n": {"type": "integer"}}),
    {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 5}, "minItems": 2, "maxItems": 4},
    {"type": "array", "items": {"type": "string", "enum": ["yes", "no", 'a"b', "é"]}, "maxItems": 3},
    {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "minItems": 1, "maxItems": 9},
    {"type": "array", "items": {"type": "number", "minimum": 3, "maximum": 3}, "maxItems": 0},
    {"type": "array", "items": {"type": "integer", "minimum": -12, "maximum": 3}, "minItems": 6, "maxItems": 9},
    {"type": "array", "items": {"type": "number", "minimum": -2, "maximum": 1}, "minItems": 6, "maxItems": 9},
    {"type": "array", "items": {"type": "number", "minimum": -3, "maximum": -2}, "minItems": 6, "maxItems": 9},
    an_object(nodes={"type": "array", "items": an_object(id={"type": "integer"}, w={"type": "number"})}),
]  # fmt: skip


TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|\{\d+,\d+\}|[a-z][a-z0-9]*|[(|)?]| ')


def language(grammar: str) -> re.Pattern[str]:
    """A grammar, which has no recursion, as a regular expression: an independent reading of GBNF."""
    rules = dict(line.split(" ::= ", 1) for line in grammar.split("\n"))

    def expression(token: re.Match[str]) -> str:
        word = token[0]
        if word[0] == '"':
            return f"(?:{re.escape(json.loads(word))})"
        if "U0010FFFF" in word:  # ASCII alone, spelt out because hypothesis takes minutes for such a class
            return f"[{re.escape(''.join(c for c in map(chr, range(128)) if re.match(word, c)))}]"
        return f"(?:{of(word)})" if word in rules else {" ": "", "(": "(?:"}.get(word, word)

    def of(rule: str) -> str:
        assert TOKEN.sub("", rules[rule]) == "", "no * and no +, so that every sentence ends"
        return TOKEN.sub(expression, rules[rule])

    return re.compile(of("root"))


def sentences(schema: dict[str, Any], **options: Any) -> st.SearchStrategy[Any]:
    """The values of JSON that the grammar of `schema` lets through."""
    text = st.from_regex(language(ebnf(schema, **options)), fullmatch=True)
    return text.map(lambda text: json.loads(text, parse_constant=pytest.fail))


PATIENT = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
@PATIENT
@given(st.data(), st.booleans())
def test_every_sentence_is_json_that_follows_the_schema_and_ends(
    schema: dict[str, Any], data: st.DataObject, ascii_only: bool
) -> None:
    value = data.draw(sentences(schema, ascii_only=ascii_only))
    assert valid(value, schema), value


@pytest.mark.parametrize("begin", ["How ", "In which "])
def test_a_pattern_and_maxlength_bind_together_whichever_way_a_text_begins(begin: str) -> None:
    schema = {"type": "string", "minLength": 20, "maxLength": 30, "pattern": "^(How|In which) [^?]*[?]$"}
    allowed = language(ebnf(schema))
    texts = {size: f"{begin:x<{size - 1}}?" for size in range(12, 40)}
    assert [size for size, text in texts.items() if allowed.fullmatch(f'"{text}"')] == [*range(20, 31)]
    for text in ("Why is it called a gene?", f"{begin}is a gene? or not?", f"{begin}is called a gene, now"):
        assert not allowed.fullmatch(f'"{text}"')


@pytest.mark.parametrize("name", ["demo", "p1_1", "p3_5", "p4_5", "p5", "hub"])
@PATIENT
@given(st.data(), st.booleans())
def test_every_string_of_a_shipped_prompts_grammar_passes_the_checks_rules_of_form(
    name: str, data: st.DataObject, ascii_only: bool
) -> None:
    """Whatever a model writes under it: the check finds no text that is no question or no sentence."""
    fields, keys = load_prompt(name).schema["properties"], ("question", "answer")
    pair = {key: data.draw(sentences(fields[key], ascii_only=ascii_only)).strip() for key in keys}
    outcome = run_step(Check, item(**pair), reject=["no_question", "no_sentence"])
    assert outcome == Done(), pair


def test_a_string_without_a_bound_gets_one_and_one_beyond_what_llama_cpp_takes_is_lowered() -> None:
    assert "char{0,400}" in ebnf(an_object(a=TEXT))
    assert "char{0,1999}" in ebnf({"type": "string", "maxLength": 10_000})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3},
        {"type": "integer", "minimum": 0, "maximum": 10**6},
        {"type": "number", "minimum": 0.5, "maximum": 1},
        {"type": "integer", "minimum": -3.5, "maximum": 3},
        {"type": "string", "pattern": "a+"},
        {"type": ["string", "null"]},
        {"type": "object", "properties": {"a": {"type": "set"}}},
        {"$ref": "#/$defs/x"},
    ],
)
def test_what_a_grammar_cannot_keep_is_refused_not_ignored(schema: dict[str, Any]) -> None:
    with pytest.raises(EngineConfigError, match=r"cannot be enforced|no grammar for it"):
        ebnf(schema)


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
]
OTHERS += [
    "^.{3,9}$",
    '^Say "(a|b)".*$',
    "^.*[?]$\n",
    "^(a).*(b).*$",
    f"^{'a' * LONGEST_PATTERN}.*$",
    f"^{'(' * 200}.*$",
]


@pytest.mark.parametrize("pattern", [*OTHERS, "^.*[\\n]$"])
def test_any_other_pattern_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern") as caught:
        read_form(pattern)
    assert "\n" not in str(caught.value)
