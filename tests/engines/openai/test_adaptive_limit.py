"""How many requests each server gets: up by one, down by a share, never none."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.openai.engine import Lane, Lanes


def test_many_refusals_at_once_are_one_decrease() -> None:
    lane = Lane(64)
    lane.succeeded(2.0)
    for _ in range(50):
        lane.overloaded(now=100.0, pause=0.0)
    assert lane.limit == 64 * 0.7
    lane.overloaded(now=103.0, pause=0.0)
    assert lane.limit == 64 * 0.7 * 0.7


@pytest.mark.parametrize(("in_flight", "least", "most"), [(10, 10.9, 11.0), (3, 10.0, 10.0)])
def test_a_full_round_of_answers_adds_one_and_those_of_a_lane_with_room_prove_nothing(
    in_flight: int, least: float, most: float
) -> None:
    lane = Lane(64)
    lane.limit, lane.in_flight = 10, in_flight
    for _ in range(10):
        lane.succeeded(1.0)
    assert least <= lane.limit <= most


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 100)), max_size=200), st.integers(1, 100))
def test_the_limit_stays_between_one_and_the_most(events: list[tuple[bool, float]], most: int) -> None:
    lane = Lane(most)
    for step, (good, pause) in enumerate(events):
        lane.in_flight = int(lane.limit)
        if good:
            lane.succeeded(0.5)
        else:
            lane.overloaded(float(step), pause)
        assert 1.0 <= lane.limit <= most
        assert lane.not_before <= step + 60.0


def test_requests_go_where_there_is_room_not_back_to_who_just_failed_and_again_to_who_has_rested() -> None:
    async def scene() -> None:
        lanes = Lanes(servers=2, most=2)
        assert [await lanes.enter(avoid) for avoid in (0, None, 0, 1)] == [1, 0, 1, 0]
        waiting = asyncio.create_task(lanes.enter(avoid=0))
        await asyncio.sleep(0)
        assert not waiting.done()
        lanes.lanes[0].overloaded(asyncio.get_running_loop().time(), pause=0.05)
        lanes.leave(0)
        lanes.leave(0)
        assert await asyncio.wait_for(waiting, 60) == 0  # better than nowhere

    asyncio.run(scene())


def test_places_are_given_in_the_order_of_arrival() -> None:
    async def scene() -> None:
        lanes = Lanes(servers=1, most=1)
        await lanes.enter()
        served: list[int] = []

        async def wait(number: int) -> None:
            served.append(number + await lanes.enter())

        waiting = [asyncio.create_task(wait(number)) for number in range(20)]
        for _ in waiting:
            await asyncio.sleep(0)
        latest = asyncio.create_task(wait(20))
        while not latest.done():
            if len(served) == sum(task.done() for task in waiting) and lanes.lanes[0].in_flight:
                lanes.leave(0)
            await asyncio.sleep(0)
        assert served == list(range(21))

    asyncio.run(scene())
