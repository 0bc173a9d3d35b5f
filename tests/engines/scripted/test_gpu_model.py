"""The model of a continuously batching GPU, in its own time."""

from typing import Any

import pytest

from kgqa_hpc.engines.scripted.gpu_model import Batch, Cost, GpuModel


def finish_times(latency: GpuModel, costs: list[Cost]) -> dict[int, float]:
    batch: Batch[int] = Batch(latency)
    for number, cost in enumerate(costs):
        batch.add(number, cost, now=0.0)
    done: dict[int, float] = {}
    while (now := batch.next_time()) is not None:
        done |= dict.fromkeys(batch.pop_ready(now), now)
    return done


@pytest.mark.parametrize(
    ("gpu", "costs", "times"),
    [
        # Prefill is serial, decoding parallel.
        (
            {"batch": 4, "prefill_tokens_per_s": 1000, "decode_tokens_per_s": 10},
            [Cost(500, 0, 20), Cost(500, 0, 20)],
            [0.5 + 2.0, 1.0 + 2.0],
        ),
        # Cached tokens are not read again.
        ({"batch": 1, "prefill_tokens_per_s": 1000}, [Cost(1000, 900, 1)], [0.1]),
        # A waiting request takes a place at the moment it falls free.
        (
            {"batch": 2, "decode_tokens_per_s": 1},
            [Cost(0, 0, tokens) for tokens in (5, 2, 1)],
            [5.0, 2.0, 3.0],
        ),
        # Beyond saturation sequences share the speed: four at half speed until 4, two at full speed from then on.
        (
            {"batch": 4, "decode_tokens_per_s": 1, "saturation": 2},
            [Cost(0, 0, tokens) for tokens in (2, 2, 4, 6)],
            [4.0, 4.0, 6.0, 8.0],
        ),
    ],
)
def test_requests_end_when_the_gpu_would_have_answered_them(
    gpu: dict[str, Any], costs: list[Cost], times: list[float]
) -> None:
    assert finish_times(GpuModel(**gpu), costs) == {n: pytest.approx(time) for n, time in enumerate(times)}


def test_looking_late_does_not_slow_the_gpu_down_and_clear_takes_out_what_runs_and_what_waits() -> None:
    batch: Batch[int] = Batch(GpuModel(batch=1, per_request_s=1.0))
    for n in range(5):
        batch.add(n, Cost(0, 0, 1), now=0.0)
    assert batch.pop_ready(2.5) == [0, 1]
    assert batch.next_time() == 3.0
    assert batch.clear() == [2, 3, 4]
    assert batch.next_time() is None


def test_the_time_sequences_held_a_place_is_summed() -> None:
    latency = GpuModel(batch=2, per_request_s=2.0)
    batch: Batch[int] = Batch(latency)
    for n in range(3):
        batch.add(n, Cost(0, 0, 1, stretch=1.5), now=0.0)
    batch.pop_ready(100.0)
    assert batch.busy_sequence_s == pytest.approx(9.0)
    assert len(batch) == 0
