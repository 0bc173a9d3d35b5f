"""`kgqa bench`: every measurement adds up and feeds the plan; `kgqa preview`: a few items before there is a run."""

import json
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgqa_hpc.config import parse_config
from kgqa_hpc.engines import parse_engine
from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.errors import EngineError, InputError
from kgqa_hpc.status.forecast import item_pace, read_bench
from kgqa_hpc.trials import bench as bench_module
from kgqa_hpc.trials.bench import Exchange, GpuWatch, Timed, header, measure, row_line, summary
from kgqa_hpc.trials.preview import Prompts, prompts_of
from tests.command import kgqa
from tests.engines.asking import QA
from tests.project import PATHS, write_project
from tests.runs import anchors, new_run
from tests.waiting import wait_for


def requests(number: int) -> list[Request]:
    system = {"role": "system", "content": "Be exact. " * 40}
    return [
        Request(f"i{n}/generate/0", (system, {"role": "user", "content": f"- 0: Node {n}"}), schema=QA)
        for n in range(number)
    ]


def prompts(number: int) -> Prompts:
    return Prompts(requests(number), per_item=2.0, steps=("generate", "judge"))


def test_the_model_of_a_gpu_is_measured_at_what_it_was_told_to_be(tmp_path: Path) -> None:
    speed = {"batch": 4, "decode_tokens_per_s": 5000, "prefill_tokens_per_s": 1e6, "prefix_hit": 0.5}
    settings = parse_engine({"kind": "scripted", "latency": speed})
    out, seen = tmp_path / "bench.json", list[int]()

    def row_done(document: dict[str, Any]) -> None:
        out.write_text(json.dumps(document))
        seen.append(len(document["rows"]))

    document = measure(settings, prompts, tmp_path / "engine.log", row_done=row_done)
    rows = document["rows"]
    assert [(r["mode"], r["batch"]) for r in rows[:-1]] == [("guided", batch) for batch in (1, 4, 6, 8)]
    assert (rows[-1]["mode"], rows[-1]["batch"]) == ("unguided", document["best"]["batch"])
    assert seen == [1, 2, 3, 4, 5], "each row is there when it is measured"
    assert json.loads(out.read_text()) == document
    for row in rows:
        batch = row["batch"]
        assert (row["requests"], row["failed"], row["repeated"]) == (4 if batch == 1 else 3 * batch, 0, 0)
        assert row["steady"]
        # A busy machine makes it slower, nothing makes it faster than the model.
        assert 0 < row["decode_tokens_per_s"] <= 1.01 * batch * speed["decode_tokens_per_s"]
        assert 0 < row["prefix_hit_share"] < 0.5
        assert (
            0 < row["first_token_s"]["median"] <= row["first_token_s"]["p95"] <= row["first_token_s"]["max"]
        )
        # Nobody answers before the model has written: the quickest wrote half of the mean (engines/scripted).
        assert row["latency_s"]["median"] >= 0.5 * row["mean_answer_tokens"] / speed["decode_tokens_per_s"]
        assert row["prefill_tokens_per_s"] > 0
        assert row["latency_s"]["median"] <= row["latency_s"]["p95"] <= row["latency_s"]["max"]
    assert document["best"]["decode_tokens_per_s"] == max(
        r["decode_tokens_per_s"] for r in rows if r["mode"] == "guided"
    )
    lines = [*header(document), *map(row_line, rows), *summary(document)]
    assert "scripted-1" in lines[0]
    pilot, rate = read_bench(out, ["generate", "judge"])
    pace = item_pace(["generate", "judge"], pilot, tokens_per_s=rate)
    assert pilot.tokens == pytest.approx(2 * document["best"]["mean_answer_tokens"])
    assert pace.seconds == pytest.approx(pilot.tokens / rate)
    assert read_bench(out, ["generate", "judge", "judge"])[0].tokens > pilot.tokens


def test_tokens_count_between_the_moments_at_which_all_places_were_taken() -> None:
    def exchange(sent: float, answered: float, tokens: int) -> Exchange:
        return Exchange(sent, answered, Response("r", "", "stop", 0, tokens))

    timed = Timed(
        10.0, 20.0, True, [exchange(5.0, 15.0, 100), exchange(12.0, 17.0, 50), exchange(18.0, 28.0, 100)]
    )
    assert timed.rate(lambda r: r.completion_tokens) == pytest.approx((50 + 50 + 20) / 10.0)


def test_prompts_that_are_too_few_are_sent_again_and_counted(tmp_path: Path) -> None:
    settings = parse_engine({"kind": "scripted", "latency": {"batch": 2}})
    document = measure(settings, lambda number: Prompts(requests(5)), tmp_path / "engine.log", batches=[2])
    assert [row["repeated"] for row in document["rows"]] == [4, 8]
    assert "4 prompts sent before" in row_line(document["rows"][0])


def test_the_best_batch_of_an_engine_that_reports_no_tokens_answers_most_requests(tmp_path: Path) -> None:
    settings = parse_engine({"kind": "function", "call": f"{__name__}:slowly"})
    document = measure(settings, prompts, tmp_path / "engine.log", batches=[1, 4])
    assert (document["best"]["batch"], document["best"]["decode_tokens_per_s"]) == (4, 0)


def slowly(*asked: object) -> str:
    time.sleep(0.05)
    return "yes"


def test_an_engine_that_answers_nothing_has_no_speed(tmp_path: Path) -> None:
    settings = parse_engine({"kind": "scripted", "faults": {"error": 1.0}})
    with pytest.raises(EngineError, match="all 4 requests failed: scripted"):
        measure(settings, prompts, tmp_path / "engine.log", batches=[1])


def test_the_prompts_are_those_of_all_steps_in_the_mix_of_a_run(tmp_path: Path) -> None:
    config = parse_config({"graph": {"source": "hpo"}, "engine": {"kind": "scripted"}}, "the test")
    run = new_run(tmp_path / "run", config, anchors(40), {"seed": 1})
    mixed = prompts_of(run.anchors, config, 60)
    labels = Counter(request.id.split("/")[1] for request in mixed.requests)
    assert len(mixed.requests) == 60 == len({str(request.messages) for request in mixed.requests})
    assert set(labels) == {step.label for step in config.passes[0].steps if step.use != "check"}
    assert min(labels.values()) > 15
    assert mixed.per_item > 1.5


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"best": {"decode_tokens_per_s": 0, "mean_answer_tokens": 1}}', "[" * 10**6]
)
def test_what_is_no_measurement_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InputError):
        read_bench(tmp_path / "x.json", ["generate"])


def test_without_a_gpu_nothing_is_made_up() -> None:
    with GpuWatch() as gpu:
        if gpu.name:
            pytest.skip("THIS MACHINE HAS A GPU")
        assert gpu.between(0, 1e12) == {"gpu_busy": None, "gpu_memory_bytes": None}


class _Driver:
    """The driver's library with two cards and a slice, in the order of the bus."""

    NVMLError = RuntimeError
    cards = {"GPU-a": "A100", "GPU-b": "H200", "MIG-c": "slice"}

    def __init__(self) -> None:
        self.nvmlInit = lambda: None
        self.nvmlDeviceGetName = str
        self.nvmlDeviceGetHandleByIndex = list(self.cards.values()).__getitem__
        self.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(used=7)

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        if uuid not in self.cards:
            raise RuntimeError("not found")
        return self.cards[uuid]

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:
        if handle == "slice":
            raise RuntimeError("not supported")
        return SimpleNamespace(gpu=50)


@pytest.mark.parametrize(
    ("uuid", "visible", "name"),
    [("b", "", "H200"), ("c", "", "slice"), ("", "GPU-b,GPU-a", "H200"), ("", "1", "H200"), ("", "", "A100")],
)
def test_the_card_that_is_watched_is_the_engines(
    monkeypatch: pytest.MonkeyPatch, uuid: str, visible: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", _Driver())
    monkeypatch.setattr(bench_module, "LOOK_EVERY_S", 0.001)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with GpuWatch(uuid) as gpu:
        assert gpu.name == name
        wait_for(lambda: gpu.between(0, 1e12)["gpu_memory_bytes"] is not None, "a sample")
    assert gpu.between(0, 1e12) == {"gpu_busy": None if name == "slice" else 0.5, "gpu_memory_bytes": 7}
    assert gpu.between(0, 0)["gpu_memory_bytes"] is None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path, PATHS.replace("kind: scripted", "kind: scripted, accept: 1.0")).parent


def test_a_person_gets_messages_answers_and_what_100000_would_take_and_no_run(project: Path) -> None:
    """tests/golden holds the JSON of a preview."""
    before = sorted(project.iterdir())
    told = kgqa("preview", project / "run.yaml", "-n", 1).stdout
    assert sorted(project.iterdir()) == before
    assert "\n    > " in told
    assert "\n    < {" in told
    assert "100,000 would take" in told


def test_the_log_that_a_failed_trial_names_stays(project: Path) -> None:
    text = (project / "run.yaml").read_text()
    server = "{kind: openai, model: m, command: [sh, -c, 'echo why; exit 1', '{port}']}"
    (project / "run.yaml").write_text(f"{text.partition('engine:')[0]}engine: {server}\n")
    for verb in ("preview", "bench"):
        log = Path(kgqa(verb, project / "run.yaml", code=2).stderr.rpartition("see ")[2].strip())
        assert log.read_text() == "why\n"
        shutil.rmtree(log.parent)


def test_an_output_that_cannot_be_written_is_noticed_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = kgqa("bench", tmp_path / "none.yaml", "--out", tmp_path / "file" / "bench.json", code=1).stderr
    assert "file: is in the way" in said
