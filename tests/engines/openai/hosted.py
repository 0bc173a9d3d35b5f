"""Ten hosted vendors as a client meets them: what each refuses, in its own words, and how it answers.

The words follow the vendors' published references and error messages that users report; no vendor was asked.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.servers import QuietHandler, chat_server, completion

Body = Mapping[str, Any]
Reply = tuple[int, Any, dict[str, str]]
INVALID = "invalid_request_error"
STRUCTURED = ("json_schema", "json_object")


@dataclass(frozen=True)
class Vendor:
    """`refuses` returns the refusal of a request, or None; `keeps` are the forms that it keeps to."""

    refuses: Callable[[Body], Reply | None]
    keeps: tuple[str, ...]
    mode: str  # that the engine agrees on with it
    omitted: str = ""
    path: str = "/v1"
    header: str = "Authorization"


def _error(status: int, message: str, **more: Any) -> Reply:
    return status, {"error": {"message": message, **more}}, {}


def _form(body: Body) -> str:
    if "grammar" in body:
        return "gbnf"
    return str((body.get("response_format") or {}).get("type", ""))


def openai_reasoning(body: Body) -> Reply | None:
    if "max_tokens" in body:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        )
        return _error(400, words, type=INVALID, param="max_tokens", code="unsupported_parameter")
    if body.get("temperature", 1) != 1:
        words = (
            "Unsupported value: 'temperature' does not support 0.0 with this model. "
            "Only the default (1) value is supported."
        )
        return _error(400, words, type=INVALID, param="temperature", code="unsupported_value")
    if "grammar" in body:
        return _error(
            400, "Unknown parameter: 'grammar'.", type=INVALID, param="grammar", code="unknown_parameter"
        )
    if _form(body) == "structural_tag":
        words = (
            "Invalid value: 'structural_tag'. Supported values are: 'json_object', 'json_schema', and 'text'."
        )
        return _error(400, words, type=INVALID, param="response_format.type", code="invalid_value")
    return None


def azure(body: Body) -> Reply | None:
    if "grammar" in body or _form(body) == "structural_tag":
        return _error(400, "Unrecognized request argument supplied: " + _form(body), type=INVALID)
    return None


def mistral(body: Body) -> Reply | None:
    for name in ("seed", "grammar"):
        if name in body:
            words = "Extra inputs are not permitted"
            detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": words}]
            return 422, {"object": "error", "message": {"detail": detail}, "type": INVALID}, {}
    if _form(body) == "structural_tag":
        place = ["body", "response_format", "type"]
        return 422, {"detail": [{"type": "enum", "loc": place, "msg": "Input should be 'text'"}]}, {}
    return None


def anthropic(body: Body) -> Reply | None:
    return None  # passes over what it does not know: response_format, seed


def gemini(body: Body) -> Reply | None:
    for name in ("seed", "grammar"):
        if name in body:
            words = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
            return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], {}
    if _form(body) == "structural_tag":
        words = "Invalid value at 'response_format.type'"
        return 400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}], {}
    return None


def deepseek(body: Body) -> Reply | None:
    if _form(body) in ("structural_tag", "json_schema"):
        return _error(400, "This response_format type is unavailable now", type=INVALID)
    if _form(body) == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        words = (
            "Prompt must contain the word 'json' in some form to use 'response_format' of type 'json_object'."
        )
        return _error(400, words, type=INVALID)
    return None


def groq(body: Body) -> Reply | None:
    if "grammar" in body:
        return _error(400, "property 'grammar' is unsupported", type=INVALID)
    if _form(body) == "structural_tag":
        words = "'response_format.type' : one of the following must be satisfied: value must be \"text\""
        return _error(400, words, type=INVALID)
    if _form(body) == "json_schema" and "hello" in body["messages"][-1]["content"]:
        words = (
            "Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details."
        )
        return _error(400, words, type=INVALID, code="json_validate_failed", failed_generation="Hi")
    return None


def xai(body: Body) -> Reply | None:
    if "seed" in body:
        words = "Argument not supported on this model: seed"
        return 400, {"code": "Client specified an invalid argument", "error": words}, {}
    return None


def openrouter(body: Body) -> Reply | None:
    if _form(body) == "structural_tag":  # of a provider behind it: with status 200
        return 200, {"error": {"code": 400, "message": "Provider returned error: bad response_format"}}, {}
    return None


def together(body: Body) -> Reply | None:
    if body["max_tokens"] > 512:
        return _error(422, "Input validation error: `max_tokens` must be <= 512", param="max_tokens")
    if _form(body) == "structural_tag":
        return _error(422, "Input validation error: unknown variant `structural_tag`", param=None)
    return None


VENDORS = {
    "openai": Vendor(
        openai_reasoning, STRUCTURED, "json_schema", "temperature, max_tokens as max_completion_tokens"
    ),
    "azure": Vendor(
        azure, STRUCTURED, "json_schema", "", "/openai/deployments/d?api-version=2026-01-01", "api-key"
    ),
    "mistral": Vendor(mistral, STRUCTURED, "json_schema", "seed"),
    "anthropic": Vendor(anthropic, (), "none"),
    "gemini": Vendor(gemini, STRUCTURED, "json_schema", "seed", "/v1beta/openai/"),
    "deepseek": Vendor(deepseek, ("json_object",), "json_object"),
    "groq": Vendor(groq, STRUCTURED, "json_schema", path="/openai/v1"),
    "xai": Vendor(xai, STRUCTURED, "json_schema", "seed"),
    "openrouter": Vendor(openrouter, STRUCTURED, "json_schema", path="/api/v1"),
    "together": Vendor(together, ("json_schema",), "json_schema", "max_tokens at most 512"),
}


def vendors_server(vendor: Vendor, seen: list[dict[str, Any]], key: str) -> AbstractContextManager[str]:
    """The vendor's server: keeps requests in `seen`, and answers what the schema wants or a greeting."""
    path, _, query = vendor.path.partition("?")
    address = f"{path.rstrip('/')}/chat/completions" + (f"?{query}" if query else "")

    def answer(handler: QuietHandler, body: dict[str, Any]) -> Reply:
        if handler.path != address or key not in (handler.headers[vendor.header] or ""):
            return _error(404, f"no such path {handler.path}")
        seen.append(body)
        prompt = body["messages"][-1]["content"]
        message: dict[str, Any] = {"content": "Hello!"}
        if _form(body) in vendor.keeps or "hello" not in prompt:
            message = {"content": json.dumps({"ok": True, "word": 'a "word"'})}
        if "forbidden" in prompt:
            message = {"content": None, "refusal": "I cannot help with that."}
        return vendor.refuses(body) or (200, completion(message, system_fingerprint="fp_1"), {})

    return chat_server(answer)
