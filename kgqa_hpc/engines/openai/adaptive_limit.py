"""Adaptive limit of requests in flight for each of several servers: additive increase, multiplicative decrease.

The limit of a server grows by one with answers and shrinks, with a pause, when the server is overloaded; requests go
to the server with most free places. As in TCP (Chiu and Jain, 1989), several workers thus share a server fairly without
messages.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

DECREASE = 0.7
LONGEST_PAUSE_S = 60.0


class Lane:
    """The limit of one server, between 1 and `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(most)
        self.in_flight = 0
        self.not_before = 0.0
        self._latency = 0.0
        self._decreased = 0.0

    def succeeded(self, seconds: float) -> None:
        """Record an answer and its seconds; may increase the limit."""
        self._latency = seconds if self._latency == 0 else 0.9 * self._latency + 0.1 * seconds
        if self.in_flight + 1 >= self.limit:  # only an answer at the limit shows that more requests would fit
            self.limit = min(self.limit + 1 / self.limit, self.most)

    def overloaded(self, now: float, pause: float) -> None:
        """Decrease the limit after a refusal or a time-out; once per round trip, because many refusals are one
        event.
        """
        self.rest(now, pause)
        if now - self._decreased > self._latency:
            self.limit = max(self.limit * DECREASE, 1.0)
            self._decreased = now

    def rest(self, now: float, seconds: float) -> None:
        """Pause the requests to the server for some seconds."""
        self.not_before = max(self.not_before, now + min(seconds, LONGEST_PAUSE_S))

    def room(self, now: float) -> float:
        """Free places as a share of the limit; 0 during a pause."""
        if now < self.not_before or self.in_flight >= int(self.limit):
            return 0.0
        return 1.0 - self.in_flight / self.limit


class Lanes:
    """All servers of one model; used from one event loop."""

    def __init__(self, servers: int, most: int) -> None:
        self.lanes = [Lane(most) for _ in range(servers)]
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()  # its waiters go in their order of arrival

    async def enter(self, avoid: int | None = None) -> int:
        """Wait for a place, first come, first served; returns the number of its server. The server `avoid`, which just
        failed, is chosen last.
        """
        async with self._turn:
            while True:
                now = time.monotonic()
                rooms = [lane.room(now) for lane in self.lanes]
                if avoid is not None and any(r > 0 for i, r in enumerate(rooms) if i != avoid):
                    rooms[avoid] = 0.0
                best = max(range(len(rooms)), key=rooms.__getitem__)
                if rooms[best] > 0:
                    self.lanes[best].in_flight += 1
                    return best
                # Until a request ends, or the first pause of a server.
                rests = [lane.not_before - now for lane in self.lanes if lane.not_before > now]
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), min(rests, default=None))

    def leave(self, server: int) -> None:
        """Release a place, because its request has ended."""
        self.lanes[server].in_flight -= 1
        self._changed.set()
