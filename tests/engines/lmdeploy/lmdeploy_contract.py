"""The LMDeploy engine on the installed LMDeploy, its native engine replaced. Run by test_lmdeploy.py, in the
environment of tools/install_lmdeploy_cpu.sh."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lmdeploy
import psutil
import pytest
from lmdeploy.messages import ResponseType
from lmdeploy_fake import FakeTurboMind, Reply, make_model, native_engine

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.lmdeploy import engine as module
from kgqa_hpc.engines.lmdeploy.engine import LmdeployEngine
from kgqa_hpc.engines.lmdeploy.settings import LmdeploySettings
from kgqa_hpc.engines.mailbox import Mailbox
from kgqa_hpc.errors import EngineConfigError

PATIENCE_S = 120.0
SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
Start = Callable[..., tuple[LmdeployEngine, FakeTurboMind]]


def request(text: str, **settings: Any) -> Request:
    return Request(text, ({"role": "user", "content": f"#{text}#"},), **{"max_tokens": 200, **settings})


def name(prompt: str) -> str:
    return prompt.split("#")[1]


def echo(prompt: str) -> str | Exception | ResponseType:
    asked = name(prompt)
    if asked.startswith("boom"):
        return RuntimeError("the native engine threw")
    if asked.startswith("oom"):
        return ResponseType.OUT_OF_MEMORY
    return f"answer to {asked}"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture
def start(model: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(reply: Reply = echo, **settings: Any) -> tuple[LmdeployEngine, FakeTurboMind]:
            built = stack.enter_context(native_engine(reply))
            settings = {"session_len": 512, "max_batch_size": 4, **settings}
            engine = LmdeployEngine(LmdeploySettings(model=str(model), **settings))
            stack.callback(engine.close)
            return engine, built[-1]

        yield begin


def ask(engine: LmdeployEngine, requests: list[Request]) -> dict[str, Response]:
    answers = list(engine.generate(Mailbox.holding(requests)))
    assert sorted(a.id for a in answers) == sorted(r.id for r in requests)
    return {a.id: a for a in answers}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


# What of LMDeploy's surface the engine stands on.


def test_lmdeploy_takes_our_settings_and_refuses_wrong_ones() -> None:
    config = lmdeploy.TurbomindEngineConfig(
        model_format="awq", quant_policy=4, cache_max_entry_count=0.5, tp=1, session_len=4096,
        max_batch_size=64, enable_prefix_caching=True, revision="main",
    )  # fmt: skip
    assert int(config.quant_policy) == 4
    with pytest.raises(ValueError):
        lmdeploy.TurbomindEngineConfig(quant_policy=3)
    generation = lmdeploy.GenerationConfig()
    assert (generation.do_sample, generation.random_seed, generation.response_format) == (False, None, None)
    assert "response_format" in inspect.signature(lmdeploy.GenerationConfig).parameters


def test_turbomind_that_cannot_run_is_refused_not_replaced(model: Path) -> None:
    from lmdeploy import turbomind

    if turbomind.is_available():
        pytest.skip("THIS MACHINE HAS A GPU")
    with pytest.raises(EngineConfigError, match="TurboMind cannot run here") as caught:
        LmdeployEngine(LmdeploySettings(model=str(model)))
    assert caught.value.exit_code == 2


def test_a_model_turbomind_does_not_know_is_refused_not_given_to_another_engine(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lmdeploy.turbomind.is_available", lambda: True)
    monkeypatch.setattr("lmdeploy.archs.autoget_backend", lambda *args, **kwargs: "pytorch")
    with pytest.raises(EngineConfigError, match="does not know the architecture"):
        LmdeployEngine(LmdeploySettings(model=str(model)))


def test_a_model_that_cannot_be_loaded_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with native_engine(echo), pytest.raises(EngineConfigError, match="cannot load"):
        LmdeployEngine(LmdeploySettings(model=str(tmp_path)))


# The engine through LMDeploy's own pipeline.


def test_every_request_is_answered_once_and_the_batch_is_full_and_never_overfull(start: Start) -> None:
    engine, native = start()
    answers = ask(engine, [request(f"r{n}") for n in range(60)])
    assert {a.id: a.text for a in answers.values()} == {f"r{n}": f"answer to r{n}" for n in range(60)}
    assert {a.finish for a in answers.values()} == {"stop"}
    assert native.peak == 4
    assert all(
        a.prompt_tokens > 0 and a.completion_tokens > 0 and a.cached_tokens > 0 for a in answers.values()
    )


def test_a_slow_answer_holds_up_nobody(start: Start) -> None:
    gate = asyncio.Event()
    engine, _ = start(lambda prompt: gate if name(prompt) == "slow" else echo(prompt))
    order: list[str] = []
    for answer in engine.generate(Mailbox.holding([request("slow"), *(request(f"r{n}") for n in range(40))])):
        order.append(answer.id)
        if len(order) == 40:  # everybody else is done before it
            engine._loop.call_soon_threadsafe(gate.set)
    assert order[-1] == "slow"
    assert len(order) == 41


def test_errors_are_answers_of_their_request_and_harm_no_other(start: Start) -> None:
    engine, _ = start()
    answers = ask(
        engine, [request("boom"), request("fine"), request("oom"), request("x" * 900), request("good")]
    )
    assert {i[:4]: a.finish for i, a in answers.items()} == {
        "boom": "error",
        "fine": "stop",
        "oom": "error",
        "xxxx": "error",
        "good": "stop",
    }
    assert (answers["x" * 900].error or "").startswith("context_length_exceeded")
    assert (answers["oom"].error or "").startswith("internal_error")


def test_an_engine_that_only_fails_ends_rather_than_failing_every_item(start: Start) -> None:
    engine, _ = start(lambda prompt: ResponseType.INTERNAL_ENGINE_ERROR)
    with pytest.raises(RuntimeError, match="in a row"):
        list(engine.generate(Mailbox.holding([request(f"r{n}") for n in range(500)])))


def test_long_prompts_do_not_count_as_the_engines_failures(start: Start) -> None:
    engine, _ = start()
    answers = ask(engine, [request(f"{n}" + "x" * 900) for n in range(module.HOPELESS + 5)])
    assert {a.finish for a in answers.values()} == {"error"}


def test_the_token_limit_is_a_length_not_data(start: Start) -> None:
    engine, _ = start()
    answer = ask(engine, [request("r", max_tokens=3)])["r"]
    assert (answer.finish, answer.completion_tokens) == ("length", 3)


def test_greedy_is_greedy_and_sampling_takes_temperature_and_seed(start: Start) -> None:
    engine, native = start()
    ask(engine, [request("greedy", temperature=0.0, seed=5)])
    assert (native.calls[-1].top_k, native.calls[-1].do_sample) == (1, False)
    ask(engine, [request("warm", temperature=0.7, seed=6)])
    assert (native.calls[-1].temperature, native.calls[-1].random_seed) == (0.7, 6)


def test_the_schema_reaches_the_engine_and_is_checked_before_any_gpu_time(start: Start) -> None:
    engine, native = start()
    engine.preflight([SCHEMA])
    ask(engine, [request("r", schema=SCHEMA)])
    form = native.calls[-1].response_format
    assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", SCHEMA)
    with pytest.raises(EngineConfigError, match="cannot compile"):
        engine.preflight([{"type": "nonsense"}])
    bad = ask(engine, [request("bad", schema={"type": "nonsense"})])["bad"]
    assert (bad.error or "").startswith("invalid_request")


def test_settings_reach_the_engine(start: Start) -> None:
    _, native = start(quant_policy=4, model_format="awq", cache_max_entry_count=0.7)
    config = native.engine_config
    assert (int(config.quant_policy), config.model_format, config.enable_prefix_caching) == (4, "awq", True)
    assert (config.session_len, config.cache_max_entry_count) == (512, 0.7)


def test_cancel_aborts_what_runs_and_what_waits_and_the_engine_serves_on(start: Start) -> None:
    never = asyncio.Event()
    engine, native = start(lambda prompt: never if name(prompt).startswith("r") else echo(prompt))

    mailbox = Mailbox()
    mailbox.put([request(f"r{n}") for n in range(60)])

    def stop_soon() -> None:
        wait_until(lambda: native.running == 4)
        mailbox.cancel()

    thread = threading.Thread(target=stop_soon)
    thread.start()
    answers = list(engine.generate(Mailbox.holding(mailbox)))
    thread.join()
    assert {a.finish for a in answers} == {"abort"}
    assert len({a.id for a in answers}) == len(answers) >= 4
    assert ask(engine, [request("fine")])["fine"].finish == "stop"
    assert not engine._engine.session_mgr.sessions


def test_no_session_is_left_behind(start: Start) -> None:
    engine, native = start()
    answers = ask(engine, [request("boom"), request("fine"), request("x" * 900), request("oom")])
    wait_until(lambda: not engine._engine.session_mgr.sessions)
    assert len(answers) == 4
    assert len(native.calls) == 3, "all but the long one had a session in the native engine"
    assert native.running == 0


def test_close_in_flight_comes_back_and_leaves_no_process(start: Start) -> None:
    never = asyncio.Event()
    engine, native = start(lambda prompt: never)
    threading.Thread(
        target=lambda: list(engine.generate(Mailbox.holding([request(f"r{n}") for n in range(20)]))),
        daemon=True,
    ).start()
    wait_until(lambda: native.running == 4)
    engine.close()
    engine.close()
    assert native.closed
    assert psutil.Process(os.getpid()).children(recursive=True) == []


def test_info_is_provenance_without_paths(start: Start) -> None:
    engine, _ = start(model_format="awq")
    info = engine.info
    assert (info.name, info.version, info.max_batch) == (
        "lmdeploy",
        lmdeploy.__version__,
        4,
    )
    assert info.model.startswith("tiny-model")
    assert info.quantisation == "awq kv16"
    assert len(info.digest) == 64
    assert "/" not in "".join(info.provenance().values())
