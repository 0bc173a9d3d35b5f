"""A script goes on from its state file after any kill."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.gasl.cli import Answers, run_script
from kgqa_hpc.plugins.gasl.execute import State, execute
from kgqa_hpc.plugins.gasl.graph import PropertyGraph
from kgqa_hpc.plugins.gasl.parser import parse
from kgqa_hpc.plugins.gasl.world import Prompt

SCRIPT = """\
DECLARE total AS COUNTER WITH_DESCRIPTION "edges"
FIND nodes WITH type=drug AS drugs
FIND edges AS links
TRY { COUNT links AS n; COUNT nope AS x; SET no = 1 }
CATCH { UPDATE total WITH n OPERATION: append; UPDATE total WITH n OPERATION: append }
FINALLY CREATE_NODES FROM drugs WITH TYPE: copy AS copies
SET v = [{"id": "x1"}, {"id": "x2"}]
CREATE_NODES FROM v AS made
FIND nodes WITH type=nope AS none
ON empty DO CREATE_EDGES FROM links WITH TYPE: again AS again
ON error DO SET no = 2
PROCESS made WITH instruction: report
COUNT FIND edges AS edges
COUNT FIND nodes AS nodes
CANCEL
SET no = 3
"""
ANSWERS = {"report": {"*": [1, {"é": None}]}}
# Kills itself with its n-th state on the way to the disk: before a byte is written, or before it has its name.
KILLED = """
import os, signal, sys
from kgqa_hpc.store import atomic
from kgqa_hpc.cli import main
where, left = sys.argv.pop(1), int(sys.argv.pop(1))
function = getattr(atomic, where)
def once_more(*arguments, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments, **named)
setattr(atomic, where, once_more)
main()
"""


@pytest.fixture
def files(toy_files: Path, tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "script.gasl").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
    files = {"script": tmp_path / "script.gasl"} | {n: toy_files / f"{n}.csv" for n in ("nodes", "edges")}
    return files | {name: tmp_path / f"{name}.json" for name in ("answers", "state")}


def run(files: dict[str, Path]) -> dict[str, Any]:
    return run_script(**files)[0].to_dict()  # type: ignore[arg-type]


@pytest.mark.parametrize(("where", "time"), [("temp_file", 1), ("commit", 11)])
def test_a_killed_script_goes_on_to_the_same_end(files: dict[str, Path], where: str, time: int) -> None:
    expected = run({**files, "state": files["state"].with_name("other.json")})
    command = [sys.executable, "-c", KILLED, where, str(time), "gasl", "run", str(files["script"])]
    for name in ("nodes", "edges", "answers", "state"):
        command += [f"--{name}", str(files[name])]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert files["state"].exists() == (time > 1)
    assert run(files) == expected


def test_each_command_is_done_once_however_often_stopped(files: dict[str, Path], toy: PropertyGraph) -> None:
    class Stop(Exception):
        pass

    script = parse(SCRIPT.encode())
    plain = State(script.digest, toy.digest)
    expected = execute(script, toy, plain, Answers(ANSWERS)).to_dict()
    document = json.dumps(State(script.digest, toy.digest).to_dict())
    rounds = 0
    while True:
        state = State.from_dict(json.loads(document))
        rounds += 1

        def stop(state: State) -> None:
            nonlocal document
            document = json.dumps(state.to_dict())
            raise Stop

        try:
            result = execute(script, toy, state, Answers(ANSWERS), stop)
        except Stop:
            continue
        break
    assert rounds > 10
    assert result.to_dict() == expected
    assert state == plain


def test_a_finished_script_gives_its_result_again(files: dict[str, Path]) -> None:
    first = run(files)
    kept = files["state"].read_bytes()
    (files["answers"]).write_text("{}")
    assert run(files) == first
    assert files["state"].read_bytes() == kept
    assert json.loads(kept)["declared"] == {"total": {"kind": "COUNTER", "description": "edges"}}


def test_an_error_that_ended_a_script_may_be_mended_outside_of_it(files: dict[str, Path]) -> None:
    (files["answers"]).write_text("{}")
    assert run(files)["error"]["kind"] == "model"
    (files["answers"]).write_text(json.dumps(ANSWERS))
    assert run(files)["status"] == "cancelled"


def test_a_state_of_another_script_or_graph_or_in_no_folder_is_refused(
    files: dict[str, Path], tmp_path: Path
) -> None:
    run(files)
    (tmp_path / "other.gasl").write_text(SCRIPT + "# more\n")
    (tmp_path / "edges.csv").write_text(files["edges"].read_text().replace("0.9", "0.8"))
    for option, file, message in (
        ("script", "other.gasl", "another script"),
        ("edges", "edges.csv", "another graph"),
        ("state", "nowhere/state.json", "its folder does not exist"),
    ):
        with pytest.raises(InputError, match=message):
            run({**files, option: tmp_path / file})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', "[" * 5000])
def test_a_file_that_is_no_state_is_refused(files: dict[str, Path], text: str) -> None:
    files["state"].write_text(text)
    with pytest.raises(InputError, match="is not the state of a script"):
        run(files)
    assert files["state"].read_text() == text


def test_items_are_asked_in_batches_with_their_ids_or_places(toy: PropertyGraph) -> None:
    asked: list[list[str]] = []

    def ask(prompts: Sequence[Prompt]) -> Sequence[Any]:
        asked.append([prompt.key for prompt in prompts])
        return [None if prompt.key == "2" else prompt.key for prompt in prompts]

    script = parse(b'SET v = [{"id": "a"}, {}, {"id": 7}, 1]; ITERATE v BATCH_SIZE 3 WITH CLASSIFY x')
    result = execute(script, toy, ask=ask)
    assert asked == [["a", "2", "7"], ["4"]]
    assert [item["category"] for item in result.variables["v"]] == ["a", None, "7", "4"]
    assert (result.status, result.steps[-1]["unanswered"]) == ("partial", 1)
