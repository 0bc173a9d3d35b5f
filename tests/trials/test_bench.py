"""kgqa bench: every measurement is there, adds up, and feeds the plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgqa_hpc.engines.config import parse_engine
from kgqa_hpc.engines.engine import EngineInfo, Request
from kgqa_hpc.errors import InputError
from kgqa_hpc.status.forecast import item_pace, read_bench
from kgqa_hpc.trials import measure as module
from kgqa_hpc.trials.bench import render
from kgqa_hpc.trials.measure import GpuWatch, card_of, measure

QA = {
    "type": "object",
    "properties": {"question": {"type": "string"}, "answer": {"type": "string"}},
    "required": ["question", "answer"],
}


def requests(number: int) -> list[Request]:
    system = {"role": "system", "content": "Be exact. " * 40}
    return [
        Request(f"i{n}/generate/0", (system, {"role": "user", "content": f"- 0: Node {n}"}), schema=QA)
        for n in range(number)
    ]


def test_the_model_of_a_gpu_is_measured_at_what_it_was_told_to_be(tmp_path: Path) -> None:
    speed = {"batch": 4, "decode_tokens_per_s": 5000, "prefill_tokens_per_s": 1e6, "prefix_hit": 0.5}
    settings = parse_engine({"kind": "scripted", "latency": speed})
    document = measure(settings, requests(24), tmp_path / "engine.log")
    rows = document["rows"]
    assert [(r["mode"], r["batch"]) for r in rows] == [
        (mode, batch) for batch in (1, 2, 4) for mode in ("guided", "unguided")
    ]
    for row in rows:
        assert (row["requests"], row["failed"]) == (24, 0)
        # A busy machine makes it slower, nothing makes it faster than the model.
        assert 0 < row["share_of_roofline"] <= 1.01
        assert 0 < row["prefix_hit_share"] < 0.5
        assert (
            0 < row["first_token_s"]["median"] <= row["first_token_s"]["p95"] <= row["first_token_s"]["max"]
        )
        # Nobody answers before the model has written: the quickest wrote half of the mean (engines/scripted).
        assert row["latency_s"]["median"] >= 0.5 * row["mean_answer_tokens"] / speed["decode_tokens_per_s"]
        assert row["decode_tokens_per_s"] > 0
        assert row["prefill_tokens_per_s"] > 0
        assert row["latency_s"]["median"] <= row["latency_s"]["p95"] <= row["latency_s"]["max"]
    assert document["best"]["decode_tokens_per_s"] == max(
        r["decode_tokens_per_s"] for r in rows if r["mode"] == "guided"
    )
    text = render(document)
    assert "scripted-1" in text
    assert len(text.splitlines()) == 4 + len(rows) + 3
    out = tmp_path / "bench.json"
    out.write_text(json.dumps(document))
    pilot, rate = read_bench(out, ["generate", "judge"])
    pace = item_pace(["generate", "judge"], pilot, tokens_per_s=rate)
    assert pilot.tokens > document["best"]["mean_answer_tokens"]
    assert pace.seconds == pytest.approx(pilot.tokens / rate)


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
        assert gpu.take() == {"gpu_busy": None, "gpu_memory_bytes": None}
        assert module._decode_limit(EngineInfo("x", "1", "m"), gpu, 1, 100.0) is None


def test_the_roofline_is_the_weights_over_the_bandwidth() -> None:
    card = card_of("NVIDIA H100 80GB HBM3")
    assert card is not None
    assert card_of("Quadro") is None
    gpu = GpuWatch()
    gpu.name = "NVIDIA RTX A6000"
    info = EngineInfo("lmdeploy", "1", "m", extra={"weights_bytes": 39.8e9, "kv_bytes_per_token": 87_040})
    assert module._decode_limit(info, gpu, 1, 0.0) == pytest.approx(768e9 / 39.8e9)
    many = module._decode_limit(info, gpu, 40, 1200.0)
    assert many == pytest.approx(40 * 768e9 / (39.8e9 + 40 * 1200 * 87_040))
