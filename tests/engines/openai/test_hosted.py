"""Hosted vendors' dialects: every one is answered by, and what was agreed with it stands in the provenance."""

import dataclasses
import time
from typing import Any

import pytest

from kgqa_hpc.engines.openai import agreement
from kgqa_hpc.engines.openai import engine as engine_module
from kgqa_hpc.engines.openai.agreement import ask_once
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.asking import BOOLEAN, an_object, answers_of, user
from tests.engines.openai.hosted import STRUCTURED, VENDORS, has, vendors_server
from tests.servers import chat_server, completion

SCHEMA = an_object(ok=BOOLEAN, word={"type": "string", "maxLength": 90})
KEY = "sk-of-a-vendor"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_KEY", KEY)


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_answers_and_the_provenance_says_what_was_agreed(name: str) -> None:
    vendor, seen = VENDORS[name], list[dict[str, Any]]()
    in_header = vendor.header == "api-key"
    key = {"headers": {"api-key": "$VENDOR_KEY"}} if in_header else {"api_key_env": "VENDOR_KEY"}
    with vendors_server(vendor, seen, KEY) as address:
        engine = OpenAIEngine(OpenAISettings(model="m", base_url=address + vendor.path, **key))
        try:
            engine.preflight([SCHEMA])
            agreed = engine.info.provenance()
            prompts = ("a", "b", "a forbidden thing")
            answers = answers_of(engine, [user(p, seed=7, schema=SCHEMA) for p in prompts])
            after = engine.info.provenance()
        finally:
            engine.close()
    assert (answers["a"].finish, answers["b"].finish) == ("stop", "stop")
    refused = answers["a forbidden thing"]
    assert (refused.finish, refused.text) == ("refusal", "I cannot help with that.")
    assert (agreed["structured"], after["server"]) == (vendor.mode, "fp_1")
    assert after.get("omitted", "") == vendor.omitted
    limit = seen[-1].get("max_tokens", seen[-1].get("max_completion_tokens"))
    assert limit, "an answer without a limit is costly"


def test_parameters_are_left_out_that_a_vendor_refuses_without_a_reason_or_the_configuration_names() -> None:
    seen: list[dict[str, Any]] = []
    refusals = [(has("seed", "temperature"), (400, {"error": "Bad Request"}, {}))]
    moody = dataclasses.replace(VENDORS["anthropic"], keeps=STRUCTURED, refusals=refusals)
    with vendors_server(moody, seen, KEY) as address:
        settings = {"model": "m", "base_url": f"{address}/v1", "api_key_env": "VENDOR_KEY"}
        engine = OpenAIEngine(OpenAISettings(**settings))
        engine.close()
        assert (engine.info.omitted, engine.info.structured) == ("seed, temperature", "json_schema")
        seen.clear()
        OpenAIEngine(OpenAISettings(**settings, omit=["seed", "temperature"])).close()
    assert not any({"seed", "temperature"} & body.keys() for body in seen)


WRONG = [{"headers": {"api-key": "sk-123"}}, {"headers": {"X": "$lower"}}, {"headers": {"a b": "c"}}]


@pytest.mark.parametrize("wrong", [*WRONG, {"omit": ["messages"]}])
def test_a_key_in_the_configuration_and_what_cannot_be_left_out_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|should be"):
        OpenAISettings(model="m", **wrong)


def test_a_header_whose_variable_is_not_set_or_not_one_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = OpenAISettings(model="m", headers={"api-key": "$VENDOR_KEY"})
    monkeypatch.setenv("VENDOR_KEY", "two\nlines")
    with pytest.raises(EngineConfigError, match="VENDOR_KEY holds line breaks"):
        OpenAIEngine(settings)
    monkeypatch.delenv("VENDOR_KEY")
    with pytest.raises(EngineConfigError, match="VENDOR_KEY is not set"):
        OpenAIEngine(settings)


@pytest.mark.parametrize(
    ("status", "words", "cure"),
    [
        (301, "", "it leads to https://there/v1"), (307, "", "it leads to"),
        (404, "", "check"), (405, "", "check"),
        (400, "API key not valid. Please pass a valid API key.", "OPENAI_API_KEY or AZURE"),  # Gemini
        (400, "m is not a valid model ID", "engine.model"),  # OpenRouter
        (400, "/chat/completions: Invalid model name passed in model=m. Call ...", "engine.model"),  # LiteLLM
        (400, "Invalid model: m", "engine.model"), (400, "Model Not Exist", "engine.model"),  # Mistral, DeepSeek
    ],
)  # fmt: skip
def test_a_wrong_address_key_or_model_is_told_before_other_work_begins(
    status: int, words: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE", "sk-azure")
    headers = {"Location": "https://there/v1"}
    with (
        chat_server(lambda handler, body: (status, {"error": {"message": words}}, headers)) as address,
        pytest.raises(EngineConfigError, match=f"HTTP {status}") as caught,
    ):
        ask_once(OpenAISettings(model="m", base_url=address, headers={"api-key": "$AZURE"}))
    assert cure in caught.value.cure


def test_a_proxy_that_fails_is_named_with_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "CURABLE_S", 0.1)
    with chat_server(lambda handler, body: (200, {}, {})) as address:  # no proxy: it refuses CONNECT
        for scheme, proxy in ("http", "http://127.0.0.1:9"), ("https", address):
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
            with pytest.raises(EngineConfigError) as caught:
                ask_once(OpenAISettings(model="m", base_url=f"{scheme}://model.example/v1"))
            assert "no_proxy" in caught.value.cure


def test_a_worker_that_starts_while_a_server_has_too_many_requests_waits_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_module, "FOREIGN_PATIENCE_S", 0.0)
    times: list[float] = []

    def answer(handler: Any, body: Any) -> Any:
        times.append(time.monotonic())
        if len(times) < 3:
            return 429, {"error": {"message": "too many"}}, {"Retry-After": "0.3"}
        return 200, completion('{"ok": true}'), {}

    with chat_server(answer) as address:
        OpenAIEngine(OpenAISettings(model="m", base_url=address)).close()
    assert times[1] - times[0] >= 0.3
    assert len(times) == 3
