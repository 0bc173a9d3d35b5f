"""Hosted vendors' dialects: every one is answered by, and what was agreed with it stands in the provenance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.engines.openai import agreement
from kgqa_hpc.engines.openai.dialect import Dialect, error_words
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError
from tests.engines.openai.hosted import VENDORS, handler_of
from tests.servers import serving

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "word": {"type": "string", "maxLength": 90}},
    "required": ["ok", "word"],
    "additionalProperties": False,
}
KEY = "sk-of-a-vendor"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_KEY", KEY)
    monkeypatch.setattr(agreement, "PAUSE_S", 0.01)


def requests(*prompts: str) -> list[Request]:
    return [Request(p, ({"role": "user", "content": p},), 1000, 0.0, 7, SCHEMA) for p in prompts]


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_answers_and_the_provenance_says_what_was_agreed(name: str) -> None:
    vendor, seen = VENDORS[name], list[dict[str, Any]]()
    own = (
        {"headers": {"api-key": "$VENDOR_KEY"}}
        if vendor.header == "api-key"
        else {"api_key_env": "VENDOR_KEY"}
    )
    with serving(handler_of(vendor, seen, KEY)) as address:
        engine = OpenAIEngine(OpenAISettings(model="m", base_url=address + vendor.path, **own))
        try:
            engine.preflight([SCHEMA])
            told = engine.info.provenance()
            answers = {
                r.id: r for r in engine.generate(Mailbox.holding(requests("a", "b", "a forbidden thing")))
            }
            after = engine.info.provenance()
        finally:
            engine.close()
    assert (answers["a"].finish, answers["b"].finish) == ("stop", "stop")
    assert answers["a forbidden thing"].finish == "refusal"
    assert answers["a forbidden thing"].text == "I cannot help with that."
    assert (told["structured"], after["server"]) == (vendor.mode, "fp_1")
    assert after.get("omitted", "") == vendor.omitted
    assert seen[-1].get("max_tokens", seen[-1].get("max_completion_tokens")), (
        "an answer without a limit is costly"
    )


def test_a_vendor_that_refuses_without_a_reason_is_asked_without_seed_and_temperature() -> None:
    vendor = VENDORS["anthropic"]
    moody = type(vendor)(
        lambda body: (400, {"error": "Bad Request"}, {}) if {"seed", "temperature"} & body.keys() else None,
        ("json_schema",),
        "json_schema",
    )
    with serving(handler_of(moody, [], KEY)) as address:
        engine = OpenAIEngine(OpenAISettings(model="m", base_url=f"{address}/v1", api_key_env="VENDOR_KEY"))
        engine.close()
    assert engine.info.omitted == "seed, temperature"
    assert engine.info.structured == "json_schema"


def test_parameters_named_in_the_configuration_are_not_sent() -> None:
    seen: list[dict[str, Any]] = []
    with serving(handler_of(VENDORS["anthropic"], seen, KEY)) as address:
        settings = OpenAISettings(
            model="m", base_url=f"{address}/v1", api_key_env="VENDOR_KEY", omit=["seed", "temperature"]
        )
        OpenAIEngine(settings).close()
    assert not any({"seed", "temperature"} & body.keys() for body in seen)


@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": {"api-key": "sk-123"}},
        {"headers": {"X": "$lower"}},
        {"headers": {"a b": "c"}},
        {"omit": ["messages"]},
    ],
)
def test_a_key_in_the_configuration_and_what_cannot_be_left_out_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|cannot"):
        OpenAISettings(model="m", **wrong)


def test_a_header_whose_variable_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VENDOR_KEY")
    with pytest.raises(EngineConfigError, match="VENDOR_KEY is not set"):
        OpenAIEngine(OpenAISettings(model="m", headers={"api-key": "$VENDOR_KEY"}))


@pytest.mark.parametrize(
    "words",
    [
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "max_tokens is too large: 9000. This model supports at most 8192 completion tokens.",
        "`max_tokens` must be between 1 and 8192",
        "`max_tokens` must be <= 8192",
    ],
)
def test_a_limit_that_is_too_large_is_lowered_never_left_out(words: str) -> None:
    dialect = Dialect()
    sent = dialect.apply({"model": "m"}, 9000)
    assert dialect.learns(sent, {"error": {"message": words, "param": "max_tokens"}}, words)
    assert dialect.apply({"model": "m"}, 9000) == {"model": "m", "max_tokens": 8192}
    assert dialect.learned == "max_tokens at most 8192"


def test_a_prompt_that_is_too_long_teaches_nothing() -> None:
    dialect = Dialect()
    words = "'max_tokens' is too large: 1000. This model's maximum context length is 512 tokens"
    assert not dialect.learns({"max_tokens": 1000, "seed": 1}, {"error": {"param": "max_tokens"}}, words)
    assert dialect.learned == ""


@given(
    st.recursive(
        st.none() | st.text(max_size=9) | st.sampled_from(["seed", "max_tokens"]) | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "param", "loc", "message", "detail"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    )
)
def test_whatever_an_error_holds_a_request_is_asked_again_only_so_often(error: Any) -> None:
    dialect, tries = Dialect(), 0
    while dialect.learns(
        dialect.apply({"model": "m", "seed": 1, "temperature": 0}, 1000), error, error_words(error)
    ):
        tries += 1
        assert tries < 9
    assert "model" not in dialect.omitted
