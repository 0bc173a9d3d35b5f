#!/usr/bin/env python3
"""What asking a server costs this side: processor time a request, and requests a second, with many in flight.

    tools/bench_openai_client.py                    512 in flight, 4,000 requests: our client
    tools/bench_openai_client.py --peer openai      the official client beside it, as it comes
    tools/bench_openai_client.py --in-flight 64 --requests 1000 --json

The server runs in a process of its own on loopback and answers after a fixed pause, so that the client alone is
measured: processor seconds of this process over requests, and what the pause would allow over what came. On a
machine with two cores server and client share them; processor time is what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

PROMPT = "- 0: Ataxia (phenotype)\n" * 150
ANSWER = json.dumps({"question": "Which? " * 40, "answer": "Because. " * 50})


def serve(pause_s: float, port: Any) -> None:
    """A server that answers every request alike, `pause_s` after it came."""
    from aiohttp import web

    body = json.dumps(
        {
            "choices": [{"index": 0, "message": {"content": ANSWER}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1174, "completion_tokens": 467},
        }
    ).encode()

    async def answer(request: web.Request) -> web.Response:
        await request.read()
        await asyncio.sleep(pause_s)
        return web.Response(body=body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


def ours(url: str, requests: int, in_flight: int) -> None:
    """Our engine as it is, in this process."""
    from kgqa_hpc.engines.engine import Request
    from kgqa_hpc.engines.mailbox import Mailbox
    from kgqa_hpc.engines.openai.engine import OpenAIEngine
    from kgqa_hpc.engines.openai.settings import OpenAISettings

    settings = OpenAISettings(model="m", base_url=url, concurrency=in_flight, structured="none")
    engine = OpenAIEngine(settings)
    messages = ({"role": "system", "content": "Be exact."}, {"role": "user", "content": PROMPT})
    mailbox = Mailbox.holding([Request(f"r{n}", messages) for n in range(requests)])
    answered = sum(response.finish == "stop" for response in engine.generate(mailbox))
    engine.close()
    assert answered == requests, f"{answered} of {requests} answered"


def official(url: str, requests: int, in_flight: int) -> None:
    """The official client with its defaults, and as little as can be around it."""
    import openai

    async def run() -> None:
        client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
        places = asyncio.Semaphore(in_flight)

        async def ask() -> None:
            async with places:
                done = await client.chat.completions.create(
                    model="m",
                    messages=[
                        {"role": "system", "content": "Be exact."},
                        {"role": "user", "content": PROMPT},
                    ],
                )
                assert done.choices[0].message.content == ANSWER

        await asyncio.gather(*(ask() for _ in range(requests)))
        await client.close()

    asyncio.run(run())


def measure(name: str, url: str, requests: int, in_flight: int) -> dict[str, Any]:
    """Seconds and processor seconds of one client."""
    client = {"kgqa": ours, "openai": official}[name]
    client(url, min(requests, 50), in_flight)  # imports and connections
    began, used = time.monotonic(), _processor_s()
    client(url, requests, in_flight)
    wall, processor = time.monotonic() - began, _processor_s() - used
    return {
        "client": name,
        "requests": requests,
        "in_flight": in_flight,
        "requests_per_s": round(requests / wall, 1),
        "cpu_ms_per_request": round(1e3 * processor / requests, 3),
    }


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="What asking a server costs this side.")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--pause", type=float, default=0.25, help="seconds a request takes at the server")
    parser.add_argument("--peer", action="append", choices=["openai"], default=[], help="measure it beside")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(options.pause, port), daemon=True)
    server.start()
    try:
        url = f"http://127.0.0.1:{port.get(timeout=60)}/v1"
        names = ["kgqa", *options.peer]
        rows = [measure(name, url, options.requests, options.in_flight) for name in names]
    finally:
        server.kill()
    if options.json:
        print(json.dumps({"pause_s": options.pause, "rows": rows}, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['client']:<8} {row['requests']:,} requests, {row['in_flight']} in flight: "
            f"{row['requests_per_s']:,.0f} a second, {row['cpu_ms_per_request']:.2f} ms of processor time each"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
