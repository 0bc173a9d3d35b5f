"""The model of a continuously batching GPU, in its own time."""

from __future__ import annotations

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


def test_prefill_is_serial_decode_is_parallel() -> None:
    latency = GpuModel(batch=4, prefill_tokens_per_s=1000, decode_tokens_per_s=10)
    done = finish_times(latency, [Cost(500, 0, 20), Cost(500, 0, 20)])
    assert done == {0: pytest.approx(0.5 + 2.0), 1: pytest.approx(1.0 + 2.0)}


def test_cached_tokens_are_not_read_again() -> None:
    latency = GpuModel(batch=1, prefill_tokens_per_s=1000)
    assert finish_times(latency, [Cost(1000, 900, 1)]) == {0: pytest.approx(0.1)}


def test_a_waiting_request_takes_a_place_at_the_moment_it_falls_free() -> None:
    latency = GpuModel(batch=2, decode_tokens_per_s=1)
    done = finish_times(latency, [Cost(0, 0, 5), Cost(0, 0, 2), Cost(0, 0, 1)])
    assert done == {1: 2.0, 2: 3.0, 0: 5.0}


def test_looking_late_does_not_slow_the_gpu_down() -> None:
    batch: Batch[int] = Batch(GpuModel(batch=1, per_request_s=1.0))
    for n in range(5):
        batch.add(n, Cost(0, 0, 1), now=0.0)
    assert batch.pop_ready(3.5) == [0, 1, 2]
    assert batch.next_time() == 4.0


def test_the_time_sequences_held_a_place_is_summed() -> None:
    latency = GpuModel(batch=2, per_request_s=2.0)
    batch: Batch[int] = Batch(latency)
    for n in range(3):
        batch.add(n, Cost(0, 0, 1, stretch=1.5), now=0.0)
    batch.pop_ready(100.0)
    assert batch.busy_sequence_s == pytest.approx(9.0)
    assert len(batch) == 0


def test_beyond_saturation_sequences_share_the_speed_and_the_last_ones_run_at_full_speed() -> None:
    latency = GpuModel(batch=4, decode_tokens_per_s=1, saturation=2)
    done = finish_times(latency, [Cost(0, 0, tokens) for tokens in (2, 2, 4, 6)])
    # Four at half speed until 4; two at full speed from then on.
    assert done == {0: 4.0, 1: 4.0, 2: 6.0, 3: 8.0}


def test_clear_takes_out_what_runs_and_what_waits() -> None:
    batch: Batch[int] = Batch(GpuModel(batch=2, per_request_s=1.0))
    for n in range(4):
        batch.add(n, Cost(0, 0, 1), now=0.0)
    assert batch.clear() == [0, 1, 2, 3]
    assert batch.next_time() is None
