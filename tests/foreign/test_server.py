"""A server that sends absurd numbers, control characters and the key it was sent: by the commands, to the end."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from tests import command
from tests.chat_program import ANSWER, TEXTS
from tests.command import Done
from tests.foreign.test_terminal import EVIL, printed
from tests.runs import anchors, new_run
from tests.servers import chat_server, completion

KEY = "sk-test-0123456789abcdef"
ABSURD = ["9223372036854775808", "1e999", "1" + "0" * 30, "-5", "1e308", '"7"', "[]", "null", "true", "NaN"]
ITEMS = 24


def kgqa(*arguments: object, call: Callable[..., Done] = command.kgqa) -> str:
    done = call(*arguments, TEST_KEY=KEY)
    said = printed(done.stdout + done.stderr)
    assert KEY not in said
    return said


@pytest.fixture
def address() -> Iterator[str]:
    """A server whose every answer has other absurd token counts, and tells the key."""
    turns = count()

    def answer(_: object, asked: Any) -> tuple[int, Any, dict[str, str]]:
        turn = next(turns)
        assert KEY not in json.dumps(asked)
        if turn > 10 and turn % 7 == 3:  # not at the check before the start
            return 400, {"error": {"message": f"{EVIL} bad key {KEY}"}}, {"X-Key": KEY}
        content = ANSWER | dict.fromkeys(TEXTS.split(), f"Is {KEY} a key, and why is it one?")
        body = completion(json.dumps(content), usage={"prompt_tokens": "N", "completion_tokens": "N"})
        text = json.dumps(body).replace('"N"', ABSURD[turn % len(ABSURD)])
        return 200, text.encode(), {"X-Key": KEY}

    with chat_server(answer) as address:
        yield f"{address}/v1"


def files_with(folder: Path, secret: str) -> list[Path]:
    """Files that hold the secret, compressed columns of HDF5 and Parquet read too."""
    import h5py
    import pyarrow.parquet as pq

    found = []
    for path in filter(Path.is_file, folder.rglob("*")):
        content = path.read_bytes()
        if path.suffix == ".h5":
            with h5py.File(path) as file:
                datasets: list[Any] = []
                file.visititems(lambda _, one, into=datasets: into.append(one))
                content += b"".join(one[()].tobytes() for one in datasets if isinstance(one, h5py.Dataset))
        if path.suffix == ".parquet":
            content += repr(pq.read_table(path).to_pylist()).encode()
        if secret.encode() in content:
            found.append(path)
    return found


def test_absurd_numbers_and_an_echoed_key_cost_no_run_and_reach_no_file(tmp_path: Path, address: str) -> None:
    engine: dict[str, Any] = {"kind": "openai", "model": "m", "base_url": address, "api_key_env": "TEST_KEY"}
    engine |= {"structured": "none", "concurrency": 2}
    config = parse_config({"engine": engine, "runtime": {"shard_size": 20}}, "the test")
    run = new_run(tmp_path / "run", config, anchors(ITEMS), {"seed": 1})
    kgqa("run", run.path, call=command.program)  # with what its engine prints
    for verb in ("status", "merge", "report", "status"):
        kgqa(verb, run.path)
    counts = json.loads(kgqa("status", run.path, "--json"))
    assert counts["complete"]
    assert counts["items"]["ended"] == ITEMS
    answers = b"".join(path.read_bytes() for path in (run.path / "dataset").glob("*.jsonl"))
    assert b"***" in answers, "the server's answers are in the dataset, the key is masked"
    kgqa("explain", run.path, json.loads(answers.splitlines()[0])["id"])
    kgqa("show", run.path, "--lost")
    assert files_with(run.path, "question_reasoning"), "the search finds what is compressed"
    assert files_with(run.path, KEY) == []
