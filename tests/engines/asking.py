"""Asking an engine, as every test of one does, and a validator: no engine is judged by its own reading of a schema."""

from collections.abc import Iterator
from typing import Any

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.mailbox import Mailbox

TEXT: dict[str, Any] = {"type": "string"}
BOOLEAN = {"type": "boolean"}


def an_object(**fields: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these fields, all of them required, and no other."""
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


QA = an_object(question=TEXT, answer=TEXT)


def user(text: str, **settings: Any) -> Request:
    """A request with one message; its id is the text unless `id` says another."""
    return Request(settings.pop("id", text), ({"role": "user", "content": text},), **settings)


def answers_of(engine: Any, requests: list[Request]) -> dict[str, Response]:
    """The answers by id: exactly one to each request."""
    answers: Iterator[Response] = engine.generate(Mailbox.holding(requests))
    by_id = {}
    for answer in answers:
        assert answer.id not in by_id, f"{answer.id} was answered twice"
        by_id[answer.id] = answer
    assert by_id.keys() == {request.id for request in requests}
    return by_id


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether `value` follows `schema`, whose objects have no other properties than those described."""
    import jsonschema  # not in the environment of LMDeploy, where this file is loaded too

    def closed(schema: dict[str, Any]) -> dict[str, Any]:
        if "properties" in schema:
            inner = {name: closed(inner) for name, inner in schema["properties"].items()}
            schema = {**schema, "properties": inner, "additionalProperties": False}
        return {**schema, "items": closed(schema["items"])} if "items" in schema else schema

    return bool(jsonschema.Draft202012Validator(closed(schema)).is_valid(value))
