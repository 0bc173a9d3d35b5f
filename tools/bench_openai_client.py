#!/usr/bin/env python3
"""Measure the cost of a client of a chat server: items a second and processor time per item, with many in flight.

    tools/bench_openai_client.py                         512 in flight, 4,000 requests: our client
    tools/bench_openai_client.py --peer openai           the official client beside it, as it comes
    tools/bench_openai_client.py --peer datatrove --peer data-designer     these two frameworks, installed if need be
    tools/bench_openai_client.py --peer datatrove=/path/to/python          in an environment that you have
    tools/bench_openai_client.py --rounds 3 --in-flight 64 --requests 1000 --json

The server runs in a process of its own on loopback and answers after a fixed pause, so that the client alone is
measured; every client is a process of its own too (tools/openai_clients.py), sends the same prompts, and the
server counts them. Rounds take turns; the medians and their ratios to ours are printed. On a machine with two cores
server and client share them; processor time is what counts. A peer without an interpreter gets an environment under
--environments, made once, from PyPI.
"""

import argparse
import asyncio
import json
import multiprocessing
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ANSWER = json.dumps({"question": "Which? " * 40, "answer": "Because. " * 50})
# What pip gets. datatrove[inference] would bring vLLM and SGLang, some gigabytes for a GPU, of which its server type
# `endpoint` uses nothing: only what that imports is installed.
PACKAGES = {
    "openai": ["openai"],
    "datatrove": [
        "datatrove[io]",
        "aiofiles",
        "aiosqlite",
        "httpx",
        "numpy<2.3",
        "pandas",
        "pyyaml",
        "typer",
    ],
    "data-designer": ["data-designer"],
}


def serve(pause_s: float, port: Any) -> None:
    """A server that answers every request alike, `pause_s` after it came, and counts them."""
    from aiohttp import web

    body = json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 1174, "completion_tokens": 467, "total_tokens": 1641},
        }
    ).encode()
    seen: set[str] = set()
    counts = {"requests": 0}

    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        prompt = asked["messages"][-1]["content"]
        if isinstance(prompt, list):  # in parts, as DataDesigner sends it
            prompt = "".join(part["text"] for part in prompt)
        if prompt.startswith("Item "):  # ours also asks something small when it starts
            counts["requests"] += 1
            seen.add(prompt)
        await asyncio.sleep(pause_s)
        return web.Response(body=body, content_type="application/json")

    async def count(request: web.Request) -> web.Response:
        told = web.json_response({"requests": counts["requests"], "prompts": len(seen)})
        counts["requests"] = 0
        seen.clear()
        return told

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def run() -> None:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/chat/completions", answer)
        app.router.add_get("/v1/models", models)
        app.router.add_get("/count", count)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=4096)
        await site.start()
        port.put(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def serving(pause_s: float) -> Iterator[str]:
    """Start the server in a process of its own; gives its address."""
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    server = context.Process(target=serve, args=(pause_s, port), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{port.get(timeout=60)}"
    finally:
        server.kill()


def one_round(name: str, python: str, url: str, number: int, in_flight: int) -> dict[str, Any]:
    """Run one client once; `failed` has its last output if it crashed or left a prompt unanswered."""
    command = [python, str(ROOT / "tools" / "openai_clients.py"), name, url, str(number), str(in_flight)]
    environment = {"PYTHONPATH": str(ROOT)} if name.startswith("kgqa") else {}
    done = subprocess.run(command, env=_plain(environment), capture_output=True, text=True)
    with urllib.request.urlopen(f"{url}/count", timeout=60) as reply:
        told = json.load(reply)
    if done.returncode != 0:
        return {"client": name, "failed": done.stderr.strip().splitlines()[-1:]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    # The prompts of the warm-up are the first of the others.
    if row["answered"] != number or told["prompts"] != number:
        return row | {"failed": f"{row['answered']} answered, {told['prompts']} prompts seen, of {number}"}
    return row | {"sent": told["requests"]}


def interpreter(name: str, python: str, folder: Path) -> str:
    """The peer's interpreter: the given one, this one if it has the package, else that of a new environment."""
    if python:
        return python
    module = name.replace("-", "_")
    own = folder / name / "bin" / "python"
    for candidate in (sys.executable, str(own)):
        look = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
        if Path(candidate).exists() and subprocess.run([candidate, "-c", look], cwd="/").returncode == 0:
            return candidate
    print(f"installing {name} into {folder / name}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(folder / name)], check=True)
    subprocess.run([str(own), "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
    return str(own)


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The median of each client's successful rounds, and its ratio to ours: above 1, ours is better."""
    told = []
    for name in dict.fromkeys(row["client"] for row in rows):
        own = [row for row in rows if row["client"] == name and "failed" not in row]
        if not own:
            print(
                f"{name} failed: {[row['failed'] for row in rows if row['client'] == name]}", file=sys.stderr
            )
            continue
        middle = {key: median(r[key] for r in own) for key in ("requests_per_s", "cpu_ms_per_request")}
        told.append({**own[0], **middle, "rounds": len(own)})
    if not told or told[0]["client"] != "kgqa":
        raise SystemExit("ours failed, so there is nothing to compare with")
    ours = told[0]
    for row in told:
        row["our_rate_over_it"] = round(ours["requests_per_s"] / row["requests_per_s"], 2)
        row["its_cpu_over_ours"] = round(row["cpu_ms_per_request"] / ours["cpu_ms_per_request"], 2)
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description="Processor time of the client per request to a server.")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--pause", type=float, default=0.25, help="seconds a request takes at the server")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME[=PYTHON]", help=", ".join(PACKAGES)
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "kgqa-bench-clients")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers = dict(peer.partition("=")[::2] for peer in options.peer)
    if unknown := peers.keys() - PACKAGES.keys():
        parser.error(f"unknown peer {', '.join(sorted(unknown))}; known: {', '.join(PACKAGES)}")
    pythons = {"kgqa": sys.executable, "kgqa-engine": sys.executable}
    pythons |= {name: interpreter(name, python, options.environments) for name, python in peers.items()}
    with serving(options.pause) as url:
        rows = [
            one_round(name, python, url, options.requests, options.in_flight)
            for _ in range(options.rounds)
            for name, python in pythons.items()
        ]
    told = summary(rows)
    if options.json:
        print(json.dumps({"pause_s": options.pause, "rows": told, "all": rows}, indent=2))
        return 0
    for row in told:
        print(
            f"{row['client']:<14} {row['version']:<14} {row['requests']:,} items, {row['in_flight']} in flight: "
            f"{row['requests_per_s']:,.0f} a second, {row['cpu_ms_per_request']:.2f} ms of processor time each; "
            f"our rate is {row['our_rate_over_it']:.2f} times its rate, "
            f"its processor time {row['its_cpu_over_ours']:.2f} times ours"
        )
    return 0


def _plain(more: dict[str, str]) -> dict[str, str]:
    """The environment without what would lead a loopback request elsewhere, or another environment's packages in."""
    import os

    proxies = {"http_proxy", "https_proxy", "all_proxy", "pythonpath"}
    return {key: value for key, value in os.environ.items() if key.lower() not in proxies} | more


if __name__ == "__main__":
    sys.exit(main())
