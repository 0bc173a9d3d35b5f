"""Every request is answered once by LMDeploy's own pipeline. Run by test_engine.py in LMDeploy's environment."""

import asyncio
import os
import threading
import time
from typing import Any

import psutil
import pytest
from lmdeploy.messages import ResponseType
from lmdeploy_fake import PATIENCE_S, Start, echo, name, request

from kgqa_hpc.engines import lmdeploy as module
from kgqa_hpc.engines.mailbox import Mailbox
from tests.engines.asking import answers_of as ask
from tests.waiting import wait_for, when


def test_every_request_is_answered_once(start: Start) -> None:
    engine, _ = start()
    answers = ask(engine, [request(f"r{n}") for n in range(60)])
    assert {a.id: a.text for a in answers.values()} == {f"r{n}": f"answer to r{n}" for n in range(60)}
    assert {a.finish for a in answers.values()} == {"stop"}
    assert all(min(a.prompt_tokens, a.completion_tokens, a.cached_tokens) > 0 for a in answers.values())


def test_the_batch_is_full_and_never_overfull(start: Start) -> None:
    """Nobody is answered until the batch is full and all that are begun beyond it stand in front of it."""
    gate = asyncio.Event()
    engine, native = start(lambda prompt: gate)
    assert engine.info.window > 4
    with when(
        lambda: native.running + len(engine._waiting) == engine.info.window,
        lambda: engine._loop.call_soon_threadsafe(gate.set),
    ):
        answers = ask(engine, [request(f"r{n}") for n in range(60)])
    assert {a.finish for a in answers.values()} == {"stop"}
    assert native.peak == 4


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


def test_errors_are_answers_of_their_request_harm_no_other_and_leave_no_session_behind(start: Start) -> None:
    engine, native = start()
    long = "x" * 900
    answers = ask(engine, [request(text) for text in ("boom", "fine", "oom", long, "good")])
    finishes = {name[:4]: answer.finish for name, answer in answers.items()}
    assert finishes == {"boom": "error", "fine": "stop", "oom": "error", "xxxx": "error", "good": "stop"}
    assert (answers[long].error or "").startswith("context_length_exceeded")
    assert (answers["oom"].error or "").startswith("internal_error")
    assert len(native.calls) == 4, "all but the long one had a session in the native engine"
    wait_for(lambda: not engine._engine.session_mgr.sessions and not native.running, "the end of sessions")


def test_an_engine_that_only_fails_ends_and_long_prompts_do_not_count_as_its_failures(start: Start) -> None:
    engine, _ = start(lambda prompt: ResponseType.INTERNAL_ENGINE_ERROR)
    answers = ask(engine, [request(f"{n}" + "x" * 900) for n in range(module.HOPELESS + 5)])
    assert {a.finish for a in answers.values()} == {"error"}
    with pytest.raises(RuntimeError, match="in a row"):
        list(engine.generate(Mailbox.holding([request(f"r{n}") for n in range(500)])))


def test_the_token_limit_is_a_length_not_data_and_the_context_is_never_exceeded(start: Start) -> None:
    engine, native = start(session_len=256)
    answer = ask(engine, [request("r", max_tokens=3)])["r"]
    assert (answer.finish, answer.completion_tokens) == ("length", 3)
    answer = ask(engine, [request("r", max_tokens=1000)])["r"]
    assert answer.finish in {"stop", "length"}
    assert native.calls[-1].max_new_tokens == 256 - answer.prompt_tokens


def test_sampling_settings_and_template_arguments_reach_lmdeploy(start: Start) -> None:
    generation = {"top_p": 0.9, "top_k": 7, "repetition_penalty": 1.1, "extra": {"min_new_tokens": 2}}
    template = {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"}
    engine, native = start(generation=generation, **template)
    ask(engine, [request("greedy", temperature=0.0, seed=5)])
    assert (native.calls[-1].top_k, native.calls[-1].do_sample) == (1, False)
    seen: dict[str, Any] = {}
    real = engine._engine.preprocess

    async def preprocess(**arguments: Any) -> Any:
        seen.update(arguments)
        return await real(**arguments)

    engine._engine.preprocess = preprocess
    ask(engine, [request("r", temperature=0.7, seed=6)])
    call = native.calls[-1]
    assert (call.temperature, call.random_seed) == (0.7, 6)
    assert (call.top_p, call.top_k, call.repetition_penalty, call.min_new_tokens) == (0.9, 7, 1.1, 2)
    assert {key: seen[key] for key in template} == template
    for part in ('"top_k": 7', '"enable_prefix_caching": true', '"reasoning_effort": "low"', '"backend"'):
        assert part in engine.info.settings


def test_ticks_of_the_scheduler_are_progress_also_after_it_failed_to_tell(
    start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else progress would stand still, and a long answer would be taken for a hang."""
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.02)
    engine, native = start()
    tell, failing = native.get_schedule_metrics, threading.Event()

    def fail() -> None:
        failing.set()
        raise RuntimeError("not now")

    native.get_schedule_metrics = fail
    assert failing.wait(PATIENCE_S)
    native.ticks, native.get_schedule_metrics = 500, tell
    wait_for(lambda: engine.progress >= 500, "the engine to get there")
    assert "cannot ask its scheduler: RuntimeError('not now')" in capsys.readouterr().out
    still = engine.progress
    time.sleep(0.2)
    assert engine.progress == still, "a scheduler that stands still is no progress"
    assert engine.info.stall_s == module.STALL_S


def test_cancel_aborts_what_runs_and_what_waits_and_the_engine_serves_on(start: Start) -> None:
    never = asyncio.Event()
    engine, native = start(lambda prompt: never if name(prompt).startswith("r") else echo(prompt))
    mailbox = Mailbox()
    mailbox.put([request(f"r{n}") for n in range(60)])
    with when(lambda: native.running == 4, mailbox.cancel):
        answers = list(engine.generate(mailbox))
    assert {a.finish for a in answers} == {"abort"}
    assert len({a.id for a in answers}) == len(answers) >= 4
    assert ask(engine, [request("fine")])["fine"].finish == "stop"
    wait_for(lambda: not engine._engine.session_mgr.sessions, "the engine to get there")


def test_close_in_flight_comes_back_and_leaves_no_process(start: Start) -> None:
    never = asyncio.Event()
    engine, native = start(lambda prompt: never)
    threading.Thread(
        target=lambda: list(engine.generate(Mailbox.holding([request(f"r{n}") for n in range(20)]))),
        daemon=True,
    ).start()
    wait_for(lambda: native.running == 4, "the engine to get there")
    engine.close()
    engine.close()
    assert native.closed
    assert psutil.Process(os.getpid()).children(recursive=True) == []
