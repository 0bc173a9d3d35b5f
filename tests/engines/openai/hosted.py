"""Ten hosted vendors as a client meets them: what each refuses, in its own words, and how it answers.

The words follow the vendors' published references and error messages that users report; no vendor was asked.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.servers import QuietHandler, chat_server, completion

Body = Mapping[str, Any]
Reply = tuple[int, Any, dict[str, str]]
Refusal = tuple[Callable[[Body], bool], Reply]  # of a request for which the condition holds
STRUCTURED = ("json_schema", "json_object")


@dataclass(frozen=True)
class Vendor:
    """The first of the `refusals` that fits is the reply to a request; `keeps` are the forms that it keeps to."""

    refusals: Sequence[Refusal]
    keeps: tuple[str, ...]
    mode: str  # that the engine agrees on with it
    omitted: str = ""
    path: str = "/v1"
    header: str = "Authorization"


def _form(body: Body) -> str:
    return "gbnf" if "grammar" in body else str((body.get("response_format") or {}).get("type", ""))


def has(*names: str) -> Callable[[Body], bool]:
    """Whether a request has one of these parameters, or its answer's form is one of these."""
    return lambda body: bool({*names} & {*body, _form(body)})


def error(status: int, message: str, **more: Any) -> Reply:
    return status, {"error": {"message": message, **more}}, {}


def openais(message: str, param: str, code: str) -> Reply:
    return error(400, message, type="invalid_request_error", param=param, code=code)


def mistrals(name: str) -> Reply:
    detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}]
    return 422, {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"}, {}


def geminis(words: str) -> Reply:
    return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], {}


def geminis_unknown(name: str) -> Refusal:
    return has(name), geminis(f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.')


VENDORS = {
    "openai": Vendor(
        [
            (has("max_tokens"), openais(
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")),
            (lambda body: body.get("temperature", 1) != 1, openais(
                "Unsupported value: 'temperature' does not support 0.0 with this model. "
                "Only the default (1) value is supported.", "temperature", "unsupported_value")),
            (has("gbnf"), openais("Unknown parameter: 'grammar'.", "grammar", "unknown_parameter")),
            (has("structural_tag"), openais(
                "Invalid value: 'structural_tag'. Supported values are: 'json_object', 'json_schema', and 'text'.",
                "response_format.type", "invalid_value")),
        ],
        STRUCTURED, "json_schema", "temperature, max_tokens as max_completion_tokens",
    ),
    "azure": Vendor(
        [(has("gbnf", "structural_tag"), error(400, "Unrecognized request argument supplied: grammar"))],
        STRUCTURED, "json_schema", "", "/openai/deployments/d?api-version=2026-01-01", "api-key",
    ),
    "mistral": Vendor(
        [
            (has("seed"), mistrals("seed")),
            (has("gbnf"), mistrals("grammar")),
            (has("structural_tag"), (422, {"detail": [{"loc": ["body", "response_format", "type"],
                                                       "msg": "Input should be 'text'"}]}, {})),
        ],
        STRUCTURED, "json_schema", "seed",
    ),
    # Passes over what it does not know: response_format, seed.
    "anthropic": Vendor([], (), "none"),
    "gemini": Vendor(
        [
            geminis_unknown("seed"),
            geminis_unknown("grammar"),
            (has("structural_tag"), geminis("Invalid value at 'response_format.type'")),
        ],
        STRUCTURED, "json_schema", "seed", "/v1beta/openai/",
    ),
    "deepseek": Vendor(
        [
            (has("structural_tag", "json_schema"), error(400, "This response_format type is unavailable now")),
            (lambda body: _form(body) == "json_object" and "json" not in json.dumps(body["messages"]).lower(), error(
                400, "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
            )),
        ],
        ("json_object",), "json_object",
    ),
    "groq": Vendor(
        [
            (has("gbnf"), error(400, "property 'grammar' is unsupported")),
            (has("structural_tag"), error(
                400, "'response_format.type' : one of the following must be satisfied: value must be \"text\"")),
            (lambda body: _form(body) == "json_schema" and "hello" in body["messages"][-1]["content"], error(
                400, "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.",
                code="json_validate_failed", failed_generation="Hi")),
        ],
        STRUCTURED, "json_schema", path="/openai/v1",
    ),
    "xai": Vendor(
        [(has("seed"), (400, {"code": "Client specified an invalid argument",
                              "error": "Argument not supported on this model: seed"}, {}))],
        STRUCTURED, "json_schema", "seed",
    ),
    "openrouter": Vendor(  # the error of a provider behind it comes with status 200
        [
            (has("structural_tag"), (200, {"error": {"code": 400, "message": "Provider returned error"}}, {})),
            (has("gbnf"), error(404, "No endpoints found that can handle the requested parameters.", code=404)),
        ],
        STRUCTURED, "json_schema", path="/api/v1",
    ),
    "together": Vendor(
        [
            (lambda body: body["max_tokens"] > 512,
             error(422, "Input validation error: `max_tokens` must be <= 512", param="max_tokens")),
            (has("structural_tag"), error(422, "Input validation error: unknown variant `structural_tag`")),
        ],
        ("json_schema",), "json_schema", "max_tokens at most 512",
    ),
}  # fmt: skip


def vendors_server(vendor: Vendor, seen: list[dict[str, Any]], key: str) -> AbstractContextManager[str]:
    """The vendor's server: keeps requests in `seen`, and answers what the schema wants or a greeting."""
    path, _, query = vendor.path.partition("?")
    address = f"{path.rstrip('/')}/chat/completions" + (f"?{query}" if query else "")

    def answer(handler: QuietHandler, body: dict[str, Any]) -> Reply:
        if handler.path != address or key not in (handler.headers[vendor.header] or ""):
            return error(404, f"no such path {handler.path}")
        seen.append(body)
        for condition, refusal in vendor.refusals:
            if condition(body):
                return refusal
        prompt = body["messages"][-1]["content"]
        message: dict[str, Any] = {"content": "Hello!"}
        if _form(body) in vendor.keeps or "hello" not in prompt:
            message = {"content": json.dumps({"ok": True, "word": 'a "word"'})}
        if "forbidden" in prompt:
            message = {"content": None, "refusal": "I cannot help with that."}
        return 200, completion(message, system_fingerprint="fp_1"), {}

    return chat_server(answer)
