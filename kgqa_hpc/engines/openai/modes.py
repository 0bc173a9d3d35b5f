"""Modes of enforcing a schema at a server, from the strongest to none, and the test of an answer for each.

grammar      our own grammar as `structural_tag` (vLLM, SGLang, LMDeploy)
gbnf         our own grammar as `grammar`, with lengths (llama.cpp)
json_schema  OpenAI's form, without patterns and lengths
json_object  any JSON
none         the parser, repair and retries
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.grammar import ebnf, structural_tag
from kgqa_hpc.engines.schema import Remembered, Schema, as_sent
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.text import bounded_json

Mode = Literal["grammar", "gbnf", "json_schema", "json_object", "none"]
# Values of `engine.structured`, each with the modes that are tried in turn.
TRIED: dict[str, tuple[Mode, ...]] = {
    "auto": ("grammar", "gbnf", "json_schema", "json_object", "none"),
    "grammar": ("grammar", "gbnf"),
    "json_schema": ("json_schema",),
    "json_object": ("json_object",),
    "none": ("none",),
}
# A request whose natural answer breaks every schema. Some servers require the word JSON for json_object.
QUESTION = ({"role": "user", "content": "Say hello in plain words, not in JSON."},)
PROBE = Request("probe", QUESTION, max_tokens=64)
PROBE_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


def _parameters(mode: Mode, schema: Schema) -> dict[str, Any]:
    if mode == "json_object":
        return {"response_format": {"type": "json_object"}}
    if mode in ("grammar", "gbnf"):
        # If our grammar cannot express the schema, the server compiles the schema.
        with suppress(EngineConfigError):
            return (
                {"grammar": ebnf(schema)} if mode == "gbnf" else {"response_format": structural_tag(schema)}
            )
    form = {"name": "answer", "schema": as_sent(schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


class Forms:
    """The parameters that each mode adds to the body of a request, computed once per schema."""

    def __init__(self) -> None:
        self._by_mode = {mode: Remembered(partial(_parameters, mode)) for mode in TRIED["auto"]}

    def __call__(self, mode: Mode, schema: Schema | None) -> Mapping[str, Any]:
        return {} if schema is None or mode == "none" else self._by_mode[mode](schema)


def with_the_word_json(messages: tuple[dict[str, str], ...]) -> list[dict[str, str]]:
    """Messages for json_object: OpenAI, DeepSeek and others refuse prompts without the word."""
    if any("json" in message["content"].lower() for message in messages):
        return list(messages)
    last = messages[-1]
    return [*messages[:-1], {**last, "content": f"{last['content']}\n\nAnswer in JSON."}]


def keeps_to(response: Response, mode: Mode, schema: Schema) -> bool | None:
    """Whether the answer to PROBE shows that the server enforces `mode`; None if it shows nothing."""
    if mode == "none":
        return True
    text = response.text.strip()
    if response.finish == "length":
        if len(text) < 2:
            return None
        return text[0] == "{" if mode == "json_object" else _begins(text, schema)
    if response.finish != "stop":
        return False
    try:
        value = bounded_json.loads(text)
    except ValueError:
        return False
    if mode == "json_object" or "properties" not in schema:
        return isinstance(value, dict | list)
    return isinstance(value, dict) and set(schema.get("required", ())) <= value.keys()


def _begins(text: str, schema: Schema) -> bool:
    """Whether a truncated text begins as the schema requires."""
    if "properties" not in schema:
        return text[0] in '[{"'
    key = re.match(r'\{\s*"((?:[^"\\]|\\.)*)("?)', text)
    if key is None:
        return re.fullmatch(r"\{\s*", text) is not None
    name, closed = key[1], key[2]
    return any(field == name if closed else field.startswith(name) for field in schema["properties"])
