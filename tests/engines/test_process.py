"""The watched engine process: whatever happens in it, the worker gets its answers or one EngineDied."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from kgqa_hpc.engines.child import frame
from kgqa_hpc.engines.cpu import CpuSettings
from kgqa_hpc.engines.engine import EngineInfo, Request, Response
from kgqa_hpc.engines.process import EngineProcess, exit_words
from kgqa_hpc.engines.scripted import ScriptedSettings
from kgqa_hpc.errors import EngineConfigError, EngineDied
from tests.engines.asking import QA, an_object, user
from tests.waiting import gone, wait_for

PATIENCE_S = 120.0


def request(number: int) -> Request:
    return user(f"- 0: Node {number}", id=f"item-{number}/generate/0", schema=QA)


scripted = ScriptedSettings.model_validate


def receive_all(engine: EngineProcess, count: int) -> dict[str, Response]:
    answers: dict[str, Response] = {}
    deadline = time.monotonic() + PATIENCE_S
    while len(answers) < count:
        assert time.monotonic() < deadline, f"{len(answers)} of {count} answers"
        for answer in engine.receive(1.0):
            assert answer.id not in answers
            answers[answer.id] = answer
    return answers


def pid_of(engine: EngineProcess) -> int:
    assert engine._process is not None
    return engine._process.pid


Running = Callable[..., EngineProcess]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@pytest.fixture
def running(log: Path) -> Iterator[Running]:
    """Starts scripted engines with these settings, and closes them."""
    with ExitStack() as stack:

        def started(stall_after: float = PATIENCE_S, **settings: object) -> EngineProcess:
            engine = stack.enter_context(EngineProcess(scripted(settings), log, stall_after))
            engine.start()
            return engine

        yield started


@pytest.fixture
def engine(running: Running) -> EngineProcess:
    return running()


def test_every_request_is_answered_once_also_one_beyond_the_pipe_or_no_utf8(engine: EngineProcess) -> None:
    os.kill(pid_of(engine), signal.SIGSTOP)  # it reads nothing now
    texts = [*("x" * 2_000_000 for _ in range(4)), "- 0: lone \ud800 surrogate \x00"]
    engine.send([user(text, id=f"r{n}") for n, text in enumerate(texts)])
    engine.send([request(n) for n in range(700)])
    os.kill(pid_of(engine), signal.SIGCONT)
    assert {answer.finish for answer in receive_all(engine, 705).values()} == {"stop"}
    assert engine.in_flight == set()
    assert engine.receive(0.0) == []


def test_signals_to_the_whole_job_do_not_end_the_engine(engine: EngineProcess) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        os.kill(pid_of(engine), number)
        engine.send([request(number)])
        assert len(receive_all(engine, 1)) == 1


def test_a_killed_engine_is_told_with_signal_and_what_was_in_flight_and_restarts(running: Running) -> None:
    engine = running(latency={"per_request_s": 3600})
    engine.send([request(1), request(2)])
    os.kill(pid_of(engine), signal.SIGKILL)
    with pytest.raises(EngineDied, match="SIGKILL"):
        receive_all(engine, 2)
    assert engine.in_flight == {request(1).id, request(2).id}
    with pytest.raises(EngineDied, match="not running"):
        engine.send([request(3)])
    engine._settings = scripted({})
    engine.start()
    engine.send([request(7)])
    assert set(receive_all(engine, 1)) == {request(7).id}


def test_a_frozen_engine_is_found_by_its_missing_heartbeat(engine: EngineProcess) -> None:
    engine._silent_after = 2.0
    os.kill(pid_of(engine), signal.SIGSTOP)
    with pytest.raises(EngineDied, match="sign of life"):
        receive_all(engine, 1)


def test_neither_an_idle_engine_nor_one_whose_worker_was_suspended_is_a_stalled_one(running: Running) -> None:
    engine = running(latency={"per_request_s": 0.2})
    engine._idle = PATIENCE_S - 0.1  # as if it had had nothing to do for long
    for _ in range(5):
        assert engine.receive(0.1) == []
    engine.send([request(1)])
    engine._looked -= 3600.0  # as if we had not run for an hour
    assert len(receive_all(engine, 1)) == 1


def test_what_the_user_can_mend_crosses_the_pipe_in_its_own_words(log: Path, tmp_path: Path) -> None:
    engine = EngineProcess(CpuSettings(model=str(tmp_path / "none.gguf")), log, stall_after=PATIENCE_S)
    with pytest.raises(EngineConfigError, match=r"none\.gguf") as caught:
        engine.start()
    assert caught.value.exit_code == 2
    assert engine._process is None
    engine._info = EngineInfo("cpu", "1", "m.gguf")  # as after a good start: the cause may pass
    with pytest.raises(EngineDied, match=r"did not start again: .*none\.gguf.*; give a complete \.gguf file"):
        engine.start()
    assert engine._process is None


def test_a_schema_that_cannot_be_served_is_refused_before_work(engine: EngineProcess) -> None:
    engine.preflight([QA])
    with pytest.raises(EngineConfigError, match="pattern"):
        engine.preflight([an_object(a={"type": "string", "pattern": "x+"})])
    engine.send([request(1)])
    assert len(receive_all(engine, 1)) == 1


def test_an_answer_right_behind_a_reply_is_kept(engine: EngineProcess) -> None:
    engine.in_flight.add("r")
    engine._incoming += frame("checked", engine.info) + frame("responses", [Response("r", "text", "stop")])
    assert engine.preflight([]) == engine.info
    assert [a.id for a in engine.receive(0.0)] == ["r"]


def test_cancel_aborts_what_is_in_flight_and_nothing_outlives_the_close(running: Running) -> None:
    engine = running(latency={"per_request_s": 3600, "batch": 2})
    engine.send([request(n) for n in range(20)])
    engine.cancel()
    assert {a.finish for a in receive_all(engine, 20).values()} == {"abort"}
    engine.send([request(21)])
    engine.cancel()
    assert len(receive_all(engine, 1)) == 1
    pid = pid_of(engine)
    engine.send([request(22)])
    for end in (engine.close, engine.close, engine.kill):
        end()
    assert not psutil.pid_exists(pid)


def test_a_stop_is_heard_while_the_engine_starts_and_checks_its_schemas(engine: EngineProcess) -> None:
    child = psutil.Process(pid_of(engine))
    child.suspend()  # as if it compiled for minutes
    wait_for(lambda: child.status() == psutil.STATUS_STOPPED, "it is suspended")
    began = time.monotonic()
    with pytest.raises(EngineDied, match="stopped while checking"):
        engine.preflight([QA], stop=lambda: time.monotonic() > began + 0.3)
    assert engine._process is None
    with pytest.raises(EngineDied, match="stopped while starting"):
        engine.start(stop=lambda: True)
    assert engine._process is None


MALFORMED = {
    "a number": frame("ready", 5),
    "nothing": frame("refused", None),
    "an unknown verb": frame("answers", []),
    "an unknown finish": frame("responses", [Response("r", "t", "done")]),  # type: ignore[arg-type]
    "no text": frame("responses", [Response("r", None, "stop")]),  # type: ignore[arg-type]
    "short rows": frame("responses", [["r", "t"]]),
    "an impossible length": b"\xff\xff\xff\xff",
    "no JSON": b"\x05\x00\x00\x00nope!",
    "an answer to another request": frame("responses", [Response("other", "t", "stop")]),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_answers_of_the_child_are_its_death(engine: EngineProcess, data: bytes) -> None:
    engine.send([request(1)])
    engine._incoming += data
    with pytest.raises(EngineDied, match=r"gibberish|was not sent or was answered"):
        receive_all(engine, 1)
    assert engine._process is None


@pytest.mark.parametrize("verb", ["ready", "refused"])
def test_a_malformed_greeting_of_the_child_is_its_death(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    program = tmp_path / "python"
    data = frame(verb, {"strange": 1})
    program.write_text(f"#!{sys.executable}\nimport os, sys\nos.write(int(sys.argv[3]), {data!r})\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(EngineDied, match="gibberish"):
        EngineProcess(scripted({}), log, stall_after=PATIENCE_S).start()


def test_a_long_answer_with_progress_is_no_hang_and_one_without_is(engine: EngineProcess) -> None:
    """The limit is the engine's own: a second here, a minute for LMDeploy."""
    engine._info = replace(engine.info, stall_s=1.0)
    engine.in_flight.add("long")

    def hear_a_beat(progress: int) -> None:
        engine._watch(silent=False, idle=not engine._take("beat", {"progress": progress}))

    for progress in range(1, 20):
        engine._looked -= 0.5
        hear_a_beat(progress)
    engine._looked -= 2.0
    with pytest.raises(EngineDied, match="answered nothing"):
        hear_a_beat(19)


def test_the_engine_dies_with_its_worker_even_on_sigkill(log: Path) -> None:
    worker = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from kgqa_hpc.engines.scripted import ScriptedSettings
        from kgqa_hpc.engines.process import EngineProcess, exit_words
        engine = EngineProcess(ScriptedSettings(), Path({str(log)!r}), 600.0)
        engine.start()
        print(engine._process.pid, flush=True)
        time.sleep(600)
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen([sys.executable, "-c", worker], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
    wait_for(lambda: gone(child), "its end")


def test_an_end_is_seen_also_when_both_were_suspended_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    def suspended(seconds: float) -> None:
        later = real() + 3600
        monkeypatch.setattr(time, "monotonic", lambda: later)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

    real = time.monotonic
    with subprocess.Popen(["sleep", "600"]) as child:
        monkeypatch.setattr(time, "sleep", suspended)
        assert exit_words(child.pid) == "killed by SIGKILL"
