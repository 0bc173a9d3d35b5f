"""The watched engine process: whatever happens in it, the worker gets its answers or one EngineDied."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.engines.cpu.engine import CpuSettings
from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.engines.process import EngineProcess
from kgqa_hpc.engines.protocol import Frames, frame, write_info, write_responses
from kgqa_hpc.engines.scripted.engine import ScriptedSettings
from kgqa_hpc.errors import EngineConfigError, EngineDied
from tests.waiting import gone, wait_for

PATIENCE_S = 120.0
QA = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
}


def request(number: int) -> Request:
    return Request(
        f"item-{number}/generate/0", ({"role": "user", "content": f"- 0: Node {number}"},), schema=QA
    )


def scripted(**settings: object) -> ScriptedSettings:
    return ScriptedSettings.model_validate(settings)


def receive_all(engine: EngineProcess, count: int) -> dict[str, Response]:
    answers: dict[str, Response] = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(answers) < count:
        assert time.monotonic() < deadline, f"{len(answers)} of {count} answers"
        for answer in engine.receive(1.0):
            assert answer.id not in answers
            answers[answer.id] = answer
    return answers


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def engine(log: Path) -> Iterator[EngineProcess]:
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as process:
        process.start()
        yield process


def test_every_request_is_answered_once(engine: EngineProcess) -> None:
    engine.send([request(n) for n in range(700)])
    answers = receive_all(engine, 700)
    assert set(answers) == {request(n).id for n in range(700)}
    assert engine.in_flight == frozenset()
    assert engine.receive(0.0) == []


def test_requests_larger_than_the_pipe_do_not_block_the_worker(engine: EngineProcess) -> None:
    os.kill(engine.pid or 0, signal.SIGSTOP)  # it reads nothing now
    big = ({"role": "user", "content": "x" * 2_000_000},)
    engine.send([Request(f"r{n}", big) for n in range(8)])
    os.kill(engine.pid or 0, signal.SIGCONT)
    assert len(receive_all(engine, 8)) == 8


def test_text_that_utf8_cannot_hold_survives_the_pipe(engine: EngineProcess) -> None:
    engine.send([Request("r", ({"role": "user", "content": "- 0: lone \ud800 surrogate \x00"},))])
    assert receive_all(engine, 1)["r"].finish == "stop"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_signals_to_the_whole_job_do_not_end_the_engine(
    engine: EngineProcess, number: signal.Signals
) -> None:
    os.kill(engine.pid or 0, number)
    engine.send([request(1)])
    assert len(receive_all(engine, 1)) == 1


def test_a_killed_engine_is_reported_with_its_signal_and_what_was_in_flight(log: Path) -> None:
    slow = scripted(latency={"per_request_s": 3600})
    with EngineProcess(slow, log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine.send([request(1), request(2)])
        os.kill(engine.pid or 0, signal.SIGKILL)
        with pytest.raises(EngineDied, match="SIGKILL"):
            receive_all(engine, 2)
        assert engine.in_flight == {request(1).id, request(2).id}
        with pytest.raises(EngineDied, match="not running"):
            engine.send([request(3)])


def test_an_engine_starts_again_after_its_death(engine: EngineProcess) -> None:
    os.kill(engine.pid or 0, signal.SIGKILL)
    with pytest.raises(EngineDied):
        receive_all(engine, 1)
    engine.start()
    engine.send([request(7)])
    assert set(receive_all(engine, 1)) == {request(7).id}


def test_a_hang_is_found_by_the_missing_answers_and_strikes_once(log: Path) -> None:
    with EngineProcess(scripted(faults={"hang": 1.0}), log, stall_after=1.5) as engine:
        engine.start()
        engine.send([request(1)])
        memory = log.with_suffix(".faults")
        wait_for(
            lambda: memory.exists() and memory.read_text().endswith("\n"), "it to hang, and to have noted it"
        )
        with pytest.raises(EngineDied, match="answered nothing"):
            receive_all(engine, 1)
    with EngineProcess(scripted(faults={"hang": 1.0}), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine.send([request(1)])
        assert receive_all(engine, 1)[request(1).id].finish == "stop"


def test_a_frozen_engine_is_found_by_its_missing_heartbeat(log: Path) -> None:
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine._silent_after = 2.0
        os.kill(engine.pid or 0, signal.SIGSTOP)
        with pytest.raises(EngineDied, match="sign of life"):
            receive_all(engine, 1)


def test_an_idle_engine_is_not_a_stalled_one(log: Path) -> None:
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine._idle = PATIENCE_S - 0.1  # as if it had had nothing to do for long
        for _ in range(5):
            assert engine.receive(0.1) == []
        engine.send([request(1)])
        assert len(receive_all(engine, 1)) == 1


def test_a_worker_that_was_suspended_does_not_blame_its_engine(log: Path) -> None:
    with EngineProcess(scripted(latency={"per_request_s": 0.2}), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine.send([request(1)])
        engine._looked -= 3600.0  # as if we had not run for an hour
        assert len(receive_all(engine, 1)) == 1


def test_crashes_strike_once_per_request_whoever_restarts_the_engine(log: Path) -> None:
    open_requests = {request(n).id: request(n) for n in range(6)}
    answers: dict[str, Response] = {}
    deaths = 0
    while open_requests:
        assert deaths <= 6
        try:
            with EngineProcess(scripted(faults={"crash": 1.0}), log, stall_after=PATIENCE_S) as engine:
                engine.start()
                for one in list(open_requests.values()):
                    engine.send([one])
                    answers |= receive_all(engine, 1)
                    del open_requests[one.id]
        except EngineDied:
            deaths += 1
    assert deaths == 6
    assert len(answers) == 6


def test_a_poisonous_request_kills_each_time(log: Path) -> None:
    with EngineProcess(scripted(faults={"poison": 1.0}), log, stall_after=PATIENCE_S) as engine:
        for _ in range(3):
            engine.start()
            engine.send([request(1)])
            with pytest.raises(EngineDied, match="SIGKILL"):
                receive_all(engine, 1)


def test_what_the_user_can_mend_crosses_the_pipe_in_its_own_words(log: Path, tmp_path: Path) -> None:
    engine = EngineProcess(CpuSettings(model=str(tmp_path / "none.gguf")), log, stall_after=PATIENCE_S)
    with pytest.raises(EngineConfigError, match=r"none\.gguf") as caught:
        engine.start()
    assert caught.value.exit_code == 2
    assert engine.pid is None


def test_a_schema_that_cannot_be_served_is_refused_before_work(engine: EngineProcess) -> None:
    engine.preflight([QA])
    with pytest.raises(EngineConfigError, match="pattern"):
        engine.preflight([{"type": "object", "properties": {"a": {"type": "string", "pattern": "x+"}}}])
    engine.send([request(1)])
    assert len(receive_all(engine, 1)) == 1


def test_an_answer_right_behind_a_reply_is_kept(engine: EngineProcess) -> None:
    engine._in_flight.add("r")
    late = frame("responses", write_responses([Response("r", "text", "stop")]))
    heard = [("checked", write_info(engine.info)), ("beat", 0), *Frames().feed(late)]
    engine._listen = lambda timeout, working: heard  # type: ignore[method-assign]
    assert engine.preflight([]) == engine.info
    del engine._listen
    assert [a.id for a in engine.receive(0.0)] == ["r"]


def test_cancel_aborts_what_is_in_flight_and_the_engine_serves_on(log: Path) -> None:
    slow = scripted(latency={"per_request_s": 3600, "batch": 2})
    with EngineProcess(slow, log, stall_after=PATIENCE_S) as engine:
        engine.start()
        engine.send([request(n) for n in range(20)])
        engine.cancel()
        assert {a.finish for a in receive_all(engine, 20).values()} == {"abort"}
        engine.send([request(21)])
        engine.cancel()
        assert len(receive_all(engine, 1)) == 1


def test_starting_can_be_interrupted(log: Path) -> None:
    engine = EngineProcess(scripted(), log, stall_after=PATIENCE_S)
    with pytest.raises(EngineDied, match="stopped"):
        engine.start(stop=lambda: True)
    assert engine.pid is None


def test_a_stop_is_heard_while_the_engine_checks_its_schemas(log: Path) -> None:
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        child = psutil.Process(engine.pid)
        child.suspend()  # as if it compiled for minutes
        wait_for(lambda: child.status() == psutil.STATUS_STOPPED, "it is suspended")
        began = time.monotonic()
        with pytest.raises(EngineDied, match="stopped while checking"):
            engine.preflight([QA], stop=lambda: time.monotonic() > began + 0.3)
        assert engine.pid is None


@pytest.mark.parametrize(
    "content",
    [5, None, [5], [["r", "t", "done", 1, 2, 3, None]], [["r", None, "stop", 1, 2, 3, None]], {"a": 1}],
)
def test_malformed_answers_of_the_child_are_its_death(engine: EngineProcess, content: object) -> None:
    engine.send([request(1)])
    engine._frames._buffer[:0] = frame("responses", content)
    with pytest.raises(EngineDied, match="gibberish"):
        receive_all(engine, 1)
    assert engine.pid is None


@pytest.mark.parametrize("verb", ["ready", "refused"])
def test_a_malformed_greeting_of_the_child_is_its_death(log: Path, verb: str) -> None:
    engine = EngineProcess(scripted(), log, stall_after=PATIENCE_S)
    engine._listen = lambda timeout, working: [(verb, {"strange": 1})]  # type: ignore[method-assign]
    with pytest.raises(EngineDied, match="gibberish"):
        engine.start()


def test_an_engine_that_could_start_once_and_now_is_refused_died_rather(log: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    settings = CpuSettings(model=str(model))
    engine = EngineProcess(settings, log, stall_after=PATIENCE_S)
    engine._info = EngineInfo("cpu", "1", "m.gguf")  # as after a good start
    with pytest.raises(EngineDied, match="did not start again"):
        engine.start()
    assert engine.pid is None


def test_an_engine_that_tells_its_progress_is_found_hanging_by_its_own_limit(log: Path) -> None:
    with EngineProcess(scripted(faults={"hang": 1.0}), log, stall_after=PATIENCE_S) as engine:
        engine._info = replace(engine.start(), stall_s=1.0)
        engine.send([request(1)])
        with pytest.raises(EngineDied, match="answered nothing"):
            receive_all(engine, 1)


def test_a_long_answer_with_progress_is_no_hang_and_one_without_is(log: Path) -> None:
    """The limit is the engine's own: a second here, a minute for LMDeploy."""
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as engine:
        engine._info = replace(engine.start(), stall_s=1.0)
        engine._in_flight.add("long")
        for tick in range(1, 20):
            engine._looked -= 0.5
            engine._watch([("beat", tick)], working=True)
        engine._looked -= 2.0
        with pytest.raises(EngineDied, match="answered nothing"):
            engine._watch([("beat", 19)], working=True)


def test_gibberish_on_the_pipe_is_a_death_not_a_wrong_answer(engine: EngineProcess) -> None:
    engine._frames._buffer += b"\x05\x00\x00\x00nope!"
    with pytest.raises(EngineDied, match="gibberish"):
        receive_all(engine, 1)
    assert engine.pid is None


def test_an_answer_nobody_asked_for_is_a_death(engine: EngineProcess) -> None:
    engine.send([request(1)])
    engine._in_flight.clear()
    with pytest.raises(EngineDied, match="was not sent or was answered"):
        receive_all(engine, 1)


def test_the_engine_dies_with_its_worker_even_on_sigkill(log: Path) -> None:
    worker = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from kgqa_hpc.engines.scripted.engine import ScriptedSettings
        from kgqa_hpc.engines.process import EngineProcess
        engine = EngineProcess(ScriptedSettings(), Path({str(log)!r}), 600.0)
        engine.start()
        print(engine.pid, flush=True)
        time.sleep(600)
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_for(lambda: gone(child), "its end")


def test_nothing_is_left_running_after_close(log: Path) -> None:
    with EngineProcess(scripted(), log, stall_after=PATIENCE_S) as engine:
        engine.start()
        pid = engine.pid
        engine.send([request(1)])
    assert pid is not None
    assert not psutil.pid_exists(pid)
    engine.close()
    engine.kill()
