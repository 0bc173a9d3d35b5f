"""The engine for servers with OpenAI's chat API: LMDeploy, vLLM, SGLang, llama.cpp, Ollama, hosted providers.

Each request is answered exactly once. A request that may have failed by the server's fault (429, 5xx, time-outs, broken
connections and bodies) is repeated with back-off, at another server if there are several. After the last attempt a
small probe distinguishes request and server: if the server answers the probe and the request fails once more,
the request has failed; otherwise the server is down and requests wait for it. If a server cannot be reached, the
request goes to another server as soon as that has room. A refused key, or a server that is down for too long, ends the
engine. The key is read from the environment, and removed from every text that leaves the engine.

The limit of a server grows by one with answers and shrinks, with a pause, when the server is overloaded; requests go
to the server with most free places. As in TCP (Chiu and Jain, 1989), several workers thus share a server fairly without
messages.
"""

import asyncio
import random
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from kgqa_hpc import __version__
from kgqa_hpc.engines.engine import LOAD, EngineInfo, Request, Response, ServerLoad
from kgqa_hpc.engines.mailbox import Mailbox, serve
from kgqa_hpc.engines.openai.agreement import FOREIGN_PATIENCE_S, PROBE, PROBE_SCHEMA, Agreement, ask_once
from kgqa_hpc.engines.openai.chat_api import ChatApi
from kgqa_hpc.engines.openai.own_server import OwnServer
from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.errors import EngineConfigError

T = TypeVar("T")

DECREASE = 0.7  # factor by which a server's limit is reduced when the server is overloaded
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0


class OpenAIEngine:
    """Servers with OpenAI's chat API: hosted ones, or vLLM, SGLang and llama.cpp, which the worker can start.

    Raises EngineConfigError when no server answers, or refuses key, model or mode.
    """

    name = "openai"
    Settings = OpenAISettings
    ask_once = staticmethod(ask_once)

    def __init__(self, config: OpenAISettings, memory: Path | None = None) -> None:
        self.server_load: ServerLoad = dict.fromkeys(LOAD, 0.0)
        self._last_success = time.monotonic()
        self._last_probe = 0.0
        self._probing = asyncio.Lock()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._server: OwnServer | None = None
        self._apis: list[ChatApi] = []
        with ExitStack() as failed:
            failed.callback(self.close)
            if config.command:  # the server's settings name its model, batch and address
                self._server = OwnServer(config)
                config = self._server.settings
            self._config = config
            self._apis = [ChatApi(url, config, timeout_s=config.timeout_s) for url in config.urls]
            self._lanes = Lanes(len(self._apis), config.concurrency)
            patience = config.start_timeout_s if self._server else FOREIGN_PATIENCE_S
            self._agreement = Agreement(self._apis, config.structured, patience)
            self._run(self._agreement.on(PROBE_SCHEMA))
            self._versions = [self._run(api.version()) for api in self._apis]
            self.info = self._described()
            failed.pop_all()

    def _described(self) -> EngineInfo:
        config = self._config
        versions = [
            ", ".join(dict.fromkeys(filter(None, (version, api.fingerprint))))
            for version, api in zip(self._versions, self._apis, strict=True)
        ]
        most = config.concurrency * len(self._apis)
        return EngineInfo(
            name="openai",
            version=__version__,  # the version of this client; the server's is in `server`
            server="; ".join(dict.fromkeys(versions)),
            structured=self._agreement.words,
            omitted=self._omitted,
            model=config.model,
            digest=self._server.digest if self._server else "",
            settings=config.recorded(sampling=config.sampling.added),
            max_batch=most,
            # A quarter of the requests waits in this process, so that the next one is sent as soon as another ends.
            window=most * 5 // 4,
        )

    @property
    def _omitted(self) -> str:
        """The changes learned from the servers' refusals so far."""
        return "; ".join(dict.fromkeys(filter(None, (api.dialect.learned for api in self._apis))))

    @property
    def progress(self) -> int:
        """Number of repeated requests. It grows while a server is down, so that `start_timeout_s` limits the wait and
        not `engine_stall`.
        """
        return int(self.server_load["retries"])

    def preflight(self, schemas: Sequence[Mapping[str, Any]]) -> None:
        for schema in schemas:
            self._run(self._agreement.on(schema))
        self.info = self._described()

    def generate(self, mailbox: Mailbox) -> Iterator[Response]:
        running: dict[Future[Response], Request] = {}

        def begin(request: Request) -> None:
            future = asyncio.run_coroutine_threadsafe(self._answer(request), self._loop)
            running[future] = request
            future.add_done_callback(end)

        def end(future: Future[Response]) -> None:
            request = running.pop(future)
            if future.cancelled():
                mailbox.answer(Response(request.id, "", "abort"))
            elif problem := future.exception():
                mailbox.fail(problem)
            else:
                mailbox.answer(future.result())

        def abort() -> None:
            for future in list(running):
                future.cancel()

        yield from serve(mailbox, self.info.window, begin, abort)

    def close(self) -> None:
        if self._loop.is_running():
            self._run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._server is not None:
            self._server.close()

    async def _end(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        for api in self._apis:
            await api.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _answer(self, request: Request) -> Response:
        """Repeat a request until it has an answer, or has certainly failed."""
        tries = 0
        worked = False  # the server answered other requests just before the last attempt
        server: int | None = None
        while True:
            server = await self._lanes.enter(avoid=server)
            lane, api = self._lanes.lanes[server], self._apis[server]
            began = time.monotonic()
            try:
                response = await api.ask(request, self._agreement.mode)
                self._last_success = time.monotonic()
                lane.succeeded(self._last_success - began)
                lane.rest(self._last_success, api.rest_s)
                learned = self._omitted != self.info.omitted  # the server refused a parameter meanwhile
                if learned or (api.fingerprint and not self.info.server):
                    self.info = self._described()
                return response
            except Trouble as trouble:
                tries += 1
                pause = _pause(tries, trouble.retry_after)
                if trouble.overloaded:
                    lane.overloaded(time.monotonic(), pause)
                failed = trouble
                self.server_load["throttled"] += trouble.status == 429
            finally:
                self._lanes.leave(server)
            if failed.fatal and not await self._refuses_prompt(api, failed):
                raise EngineConfigError(str(failed), failed.cure)
            works = tries > self._config.max_retries and await self._works(time.monotonic())
            if not failed.again or (works and worked and not failed.unseen):
                return Response(request.id, "", "error", error=f"{failed} (try {tries})")
            worked = works
            self.server_load["retries"] += 1
            self.server_load["waited_s"] += pause
            count = int(self.server_load["retries"])
            if count & (count - 1) == 0:  # log the first retry, and whenever their number has doubled
                print(f"openai: retry {count:,} after {pause:.1f} s: {failed}", flush=True)
            await asyncio.sleep(pause)

    async def _refuses_prompt(self, api: ChatApi, trouble: Trouble) -> bool:
        """Whether a server refused the prompt, not its key or model, because it answers a small request."""
        with suppress(Trouble):
            return trouble.status in (400, 401, 403, 404) and bool(await api.ask(PROBE, "none"))
        return False

    async def _works(self, since: float) -> bool:
        """Whether a server has answered a request since `since`; else ask one server after the other until one answers.

        Raises ConnectionError if none has answered for too long.
        """
        async with self._probing:
            if self._last_success >= since or self._last_probe >= since:
                return self._last_success >= since
            self._last_probe = time.monotonic()
            for api in self._apis:
                try:
                    await api.ask(PROBE, "none")
                    self._last_success = time.monotonic()
                    return True
                except Trouble as trouble:
                    words = str(trouble)
            if self._server is not None and self._server.exit_code is not None:
                raise ConnectionError(f"the server ended with exit code {self._server.exit_code}")
            if time.monotonic() - self._last_success > self._config.start_timeout_s:
                raise ConnectionError(
                    f"no server has answered for {self._config.start_timeout_s:.0f} s: {words}"
                )
            return False


def _pause(tries: int, retry_after: float | None) -> float:
    """Seconds to wait: those that the server requests, otherwise doubling with jitter."""
    if retry_after is not None:
        return min(retry_after, LONGEST_PAUSE_S) + random.uniform(0, 0.1)
    return random.uniform(0.5, 1.0) * min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)


class Lane:
    """The adaptive limit of requests in flight to one server, between 1 and `most`."""

    def __init__(self, most: int) -> None:
        self.most, self.limit = most, float(most)
        self.in_flight = 0
        self.not_before = 0.0
        self._latency = self._decreased = 0.0

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
    """The limits of all servers of one model; used from one event loop."""

    def __init__(self, servers: int, most: int) -> None:
        self.lanes = [Lane(most) for _ in range(servers)]
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()  # an asyncio lock serves its waiters in their order of arrival

    async def enter(self, avoid: int | None = None) -> int:
        """Wait for a place, first come, first served; returns the number of its server. The server `avoid`, which just
        failed, is chosen last.
        """
        async with self._turn:
            while True:
                now = time.monotonic()
                rooms = {server: lane.room(now) for server, lane in enumerate(self.lanes)}
                free = {server: room for server, room in rooms.items() if room > 0}
                if free:
                    server = max(free, key=lambda server: (server != avoid, free[server]))
                    self.lanes[server].in_flight += 1
                    return server
                # Wait until a request ends, or the first pause of a server is over.
                rests = [lane.not_before - now for lane in self.lanes if lane.not_before > now]
                self._changed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), min(rests, default=None))

    def leave(self, server: int) -> None:
        """Release a place, because its request has ended."""
        self.lanes[server].in_flight -= 1
        self._changed.set()
