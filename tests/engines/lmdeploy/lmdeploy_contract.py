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


LONG = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 20, "maxLength": 900}, "ok": {"type": "boolean"}},
    "required": ["text", "ok"],
    "additionalProperties": False,
}


def test_the_schema_reaches_the_engine_without_lengths_and_is_compiled_before_any_gpu_time(
    start: Start,
) -> None:
    engine, native = start()
    engine.preflight([LONG])
    ask(engine, [request("r", schema=LONG)])
    form = native.calls[-1].response_format
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["properties"] == {
        "text": {"type": "string"},
        "ok": {"type": "boolean"},
    }
    with pytest.raises(EngineConfigError, match="cannot compile"):
        engine.preflight([{"type": "nonsense"}])
    bad = ask(engine, [request("bad", schema={"type": "nonsense"})])["bad"]
    assert (bad.error or "").startswith("invalid_request")


def test_preflight_compiles_with_the_models_own_tokenizer_or_turbominds_own_compiler(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, native = start()
    compiled: list[Any] = []

    class Compiler:
        def compile_json_schema(self, source: str) -> None:
            compiled.append(source)
            raise RuntimeError("TurboMind's own compiler was asked")

    native.grammar_compiler = Compiler()  # as TurboMind has it
    with pytest.raises(EngineConfigError, match="own compiler was asked"):
        engine.preflight([LONG])
    assert "maxLength" not in compiled[0]


def test_a_schema_that_lmdeploy_drops_is_an_error_not_an_unguided_answer(start: Start) -> None:
    engine, native = start()
    native.drops_schemas = True  # as turbomind.py does after a ValueError, with a warning only
    answer = ask(engine, [request("r", schema=LONG)])["r"]
    assert answer.finish == "error"
    assert "dropped the schema" in (answer.error or "")


def test_without_structure_no_schema_is_sent_and_none_is_compiled(start: Start) -> None:
    engine, native = start(structured="none")
    engine.preflight([{"type": "nonsense"}])
    assert ask(engine, [request("r", schema=LONG)])["r"].finish == "stop"
    assert native.calls[-1].response_format is None


@pytest.mark.parametrize("thinking", ["qwen3", "gpt-oss"])
def test_a_model_may_think_first_and_its_answer_is_what_follows(start: Start, thinking: str) -> None:
    import json

    import xgrammar
    from lmdeploy._guided_decoding import compile_response_format

    from kgqa_hpc.engines.lmdeploy.answer_format import THOUGHTS, compiler_for

    thought = THOUGHTS[thinking]
    words = json.dumps({"text": 'a "quoted" \u03b2\nword', "ok": True}, ensure_ascii=False)
    said = f"{thought.begin}Hm {{. {thought.end}{thought.then}{words}"
    engine, native = start(lambda prompt: said, thinking=thinking)
    engine.preflight([LONG])
    assert ask(engine, [request("r", schema=LONG, max_tokens=400)])["r"].text == words
    form = native.calls[-1].response_format
    assert native.calls[-1].skip_special_tokens is False
    matcher = xgrammar.GrammarMatcher(compile_response_format(compiler_for(engine._pipe), form))
    assert matcher.accept_string(said), "LMDeploy's grammar must let the thought and the answer through"


def test_generation_settings_and_template_arguments_reach_lmdeploy(start: Start) -> None:
    generation = {"top_p": 0.9, "top_k": 7, "repetition_penalty": 1.1, "extra": {"min_new_tokens": 2}}
    engine, native = start(
        generation=generation, chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low"
    )
    seen: dict[str, Any] = {}
    real = engine._engine.preprocess

    async def preprocess(**arguments: Any) -> Any:
        seen.update(arguments)
        return await real(**arguments)

    engine._engine.preprocess = preprocess
    ask(engine, [request("r", temperature=0.7)])
    call = native.calls[-1]
    assert (call.top_p, call.top_k, call.repetition_penalty, call.min_new_tokens) == (0.9, 7, 1.1, 2)
    assert seen["chat_template_kwargs"] == {"enable_thinking": False}
    assert seen["reasoning_effort"] == "low"
    for part in ('"top_k": 7', '"enable_prefix_caching": true', '"reasoning_effort": "low"', '"backend"'):
        assert part in engine.info.settings


def test_more_tokens_than_the_context_has_room_for_are_never_asked_for(start: Start) -> None:
    engine, native = start(session_len=256)
    answer = ask(engine, [request("r", max_tokens=1000)])["r"]
    assert answer.finish in {"stop", "length"}
    assert native.calls[-1].max_new_tokens == 256 - answer.prompt_tokens


def test_the_batch_follows_the_memory_of_the_card(start: Start, model: Path, monkeypatch: Any) -> None:
    from kgqa_hpc.engines.lmdeploy import loading
    from kgqa_hpc.engines.lmdeploy.memory import OVERHEAD_BYTES

    (model / "model.safetensors").write_bytes(bytes(1000))
    try:
        # 2 layers x 4 heads x 16 numbers x keys and values x 2 bytes = 512 bytes a token
        room = 100 * 200 * 512 / 0.5 + OVERHEAD_BYTES + 1000 + 1
        monkeypatch.setattr(loading, "card_bytes", lambda: int(room))
        engine, native = start(max_batch_size=None, cache_max_entry_count=0.5, sequence_tokens=200)
        assert native.engine_config.max_batch_size == 100
        assert (engine.info.max_batch, engine.info.window) == (100, 126)
        monkeypatch.setattr(loading, "card_bytes", lambda: OVERHEAD_BYTES)
        with pytest.raises(EngineConfigError, match="less than one sequence"):
            start()
    finally:
        (model / "model.safetensors").unlink()


def test_ticks_of_the_scheduler_are_progress(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.02)
    engine, native = start()
    before = engine.progress
    native.ticks = 500
    wait_until(lambda: engine.progress >= before + 500)
    still = engine.progress
    time.sleep(0.2)
    assert engine.progress == still, "a scheduler that stands still is no progress"
    assert engine.info.stall_s == module.STALL_S


def test_lmdeploys_pytorch_backend_takes_the_format_from_the_model(model: Path) -> None:
    from kgqa_hpc.engines.lmdeploy.loading import backend_config

    plain = LmdeploySettings(model=str(model), backend="pytorch", extra={"eager_mode": True})
    config = backend_config(plain, 12)
    assert (config.max_batch_size, config.eager_mode, config.model_format) == (12, True, None)
    fp8 = backend_config(LmdeploySettings(model=str(model), backend="pytorch", model_format="fp8"), None)
    assert fp8.model_format == "fp8"
    with pytest.raises(ValueError, match="reads the format from the model"):
        LmdeploySettings(model=str(model), backend="pytorch", model_format="awq")


def test_the_formats_that_may_be_named_are_those_turbomind_knows() -> None:
    import ast

    source = (Path(lmdeploy.__file__).parent / "turbomind" / "converter.py").read_text()
    (table,) = (
        node.value
        for node in ast.parse(source).body  # not imported: it needs the native engine
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_DEFAULT_GROUP_SIZES"
    )
    field = LmdeploySettings.model_fields["model_format"].annotation
    assert set(ast.literal_eval(table)) | {"hf"} == set(field.__args__[0].__args__)


def test_settings_reach_the_engine(start: Start) -> None:
    _, native = start(
        quant_policy=4, model_format="awq", cache_max_entry_count=0.7, max_prefill_token_num=2048
    )
    config = native.engine_config
    assert (int(config.quant_policy), config.model_format, config.enable_prefix_caching) == (4, "awq", True)
    assert (config.session_len, config.cache_max_entry_count) == (512, 0.7)
    assert config.max_prefill_token_num == 2048


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
    answers = list(engine.generate(mailbox))
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


def test_the_tiny_model_of_doctor_is_a_model_for_lmdeploy(tmp_path: Path) -> None:
    from kgqa_hpc.doctor.gpu import tiny_model
    from kgqa_hpc.engines.lmdeploy.memory import read_size

    folder = tiny_model(tmp_path / "tiny")
    size = read_size(folder)
    assert size is not None
    assert size.weights > 1e6
    with native_engine(echo):
        engine = LmdeployEngine(LmdeploySettings(model=str(folder), session_len=512, max_batch_size=2))
        engine.preflight([SCHEMA])
        assert ask(engine, [request("r", schema=SCHEMA)])["r"].finish == "stop"
        engine.close()
