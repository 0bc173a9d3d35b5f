"""The status of a run for people (`kgqa status`), and for Prometheus (logs/metrics.prom)."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from kgqa_hpc.status.cost import render_money
from kgqa_hpc.status.pass_totals import acceptance_words
from kgqa_hpc.status.snapshot import VERDICTS, Status
from kgqa_hpc.text.durations import about, duration
from kgqa_hpc.text.plain_text import plain

WATCH_EVERY = 5.0  # s
LOAD = ("retries", "throttled", "waited_s")  # of a pass's engine


def render(now: Status) -> str:
    """The status as four to six lines of text."""
    lines = []
    if "stages" in now:
        done = [stage["name"] for stage in now["stages"] if stage["done"]]
        coming = [f" · next: kgqa {stage['name']}" for stage in now["stages"] if not stage["done"]]
        lines.append(f"stages    {' · '.join(done) or 'none'} done{''.join(coming[:1])}")
    lines += ["dataset   is older than the run: kgqa merge"] if now.get("dataset_is_older") else []
    workers = now["workers"]
    parts = [f"{workers['alive']:,} alive"]
    if workers["slowest"] is not None and workers["alive"] > 1:
        parts.append(f"slowest {workers['slowest']:.2f}x the mean")
    stalled = workers["stalled"]
    parts.append(f"{len(stalled)} stalled ({_some(stalled)})" if stalled else "none stalled")
    if workers["silent"]:
        parts.append(f"{len(workers['silent'])} without a sign of life ({_some(workers['silent'])})")
    if workers["engine_deaths"]:
        parts.append(f"{workers['engine_deaths']:,} engine deaths")
    lines += [_shards(now), _items(now), _verdicts(now), f"workers   {' · '.join(parts)}"]
    if "merged" in now:
        lines.append(f"dataset   {now['merged']['accepted']:,} accepted after the filters of merge")
    lines += [render_money(now["money"])] if "money" in now else []
    loads = [entry["engine"] for entry in now["passes"]]
    retries, throttled, waited = (sum(load[key] for load in loads) for key in LOAD)
    if retries + throttled:  # a model server refused or failed requests
        lines.append(
            f"server    {retries:,} requests tried again · {throttled:,} refused as too many (429)"
            f" · waited {duration(waited)}"
        )
    if now["queue"] is not None:
        lines.append(_queue(now["queue"]))
    return "\n".join(lines)


def watch(look: Callable[[], Status]) -> None:
    """Show the result of `look` on the terminal again and again, until the run is complete or the user presses
    Ctrl-C.
    """
    from rich.live import Live
    from rich.text import Text

    with Live(refresh_per_second=4) as live:
        while True:
            now = look()
            live.update(Text(plain(f"{now['run']}  {now['time']}\n{render(now)}")))
            if now["complete"]:
                return
            time.sleep(WATCH_EVERY)


def _shards(now: Status) -> str:
    shards = now["shards"]
    if not shards["total"]:
        return "shards    none yet: kgqa run cuts them"
    which = f" of pass {now['pass']}" if len(now["passes"]) > 1 else ""
    return (
        f"shards    {shards['done']:,} of {shards['total']:,} done{which} · {shards['in_work']:,} in work"
        f" · {shards['quarantined']:,} quarantined"
    )


def _items(now: Status) -> str:
    text = f"items     {now['items']['ended']:,} of {now['items']['total']:,}"
    overall, recent = now["rate"]["per_day"], now["rate"]["last_hour_per_day"]
    if overall is not None:
        # Less than an hour of work: a rate per day would mislead
        short = now["items"]["total"] < overall / 24
        unit, part = ("a minute", 1440) if short else ("a day", 1)
        text += f" · {about(overall / part)} {unit}"
        if recent is not None and not short:
            text += f" (last hour {about(recent)})"
    if now["complete"]:
        return f"{text} · complete"
    seconds_left = now["seconds_left"]
    return text if seconds_left is None else f"{text} · done in about {duration(seconds_left)}"


def _verdicts(now: Status) -> str:
    counts = now["verdicts"]
    if not now["items"]["ended"]:
        return "verdicts  none yet"
    shares = [acceptance_words(now), *(f"{name} {counts[name]:,}" for name in VERDICTS[1:] if counts[name])]
    return f"verdicts  {' · '.join(part for part in shares if part)}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _queue(jobs: list[dict[str, str]]) -> str:
    if not jobs:
        return "queue     no job of this run is queued or running"
    listed = [
        f"{job['id']} {job['name']} {job['state'].lower()}"
        + (f", {job['left']} left" if job["state"] == "RUNNING" else f" ({job['reason']})")
        for job in jobs[:4]
    ]
    more = f" · {len(jobs) - 4} more" if len(jobs) > 4 else ""
    return f"queue     {' · '.join(listed)}{more}"


def metrics(now: Status) -> str:
    """The status in the Prometheus text format, for node_exporter's textfile collector."""
    lines = []
    for name, kind, rows in _series(now):
        lines.append(f"# TYPE {name} {kind}")
        for labels, value in rows:
            pairs = ",".join(f'{key}="{text}"' for key, text in {"run": now["run"], **labels}.items())
            lines.append(f"{name}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


def _series(now: Status) -> Iterator[tuple[str, str, list[tuple[dict[str, str], Any]]]]:
    for key in ("total", "done", "in_work", "quarantined"):
        yield f"kgqa_shards_{key}", "gauge", [({"pass": now["pass"]}, now["shards"][key])]
    yield "kgqa_items_total", "gauge", [({}, now["items"]["total"])]
    yield "kgqa_items_ended", "gauge", [({}, now["items"]["ended"])]
    verdicts = [({"verdict": name}, now["verdicts"].get(name, 0)) for name in VERDICTS]
    yield "kgqa_items", "gauge", verdicts
    tokens = [
        ({"pass": pass_state["name"], "kind": kind}, number)
        for pass_state in now["passes"]
        for kind, number in sorted(pass_state["tokens"].items())
    ]
    if tokens:
        yield "kgqa_tokens", "counter", tokens
    for key in LOAD:
        name = {"waited_s": "waited_seconds"}.get(key, key)
        rows = [({"pass": engine_pass["name"]}, engine_pass["engine"][key]) for engine_pass in now["passes"]]
        yield f"kgqa_server_{name}", "counter", rows
    if "money" in now:
        spent = [({"pass": name}, number) for name, number in now["money"]["passes"].items()]
        yield "kgqa_money_spent", "counter", spent
    workers = now["workers"]
    yield "kgqa_workers_alive", "gauge", [({}, workers["alive"])]
    yield "kgqa_workers_stalled", "gauge", [({}, len(workers["stalled"]))]
    yield "kgqa_engine_deaths", "gauge", [({}, workers["engine_deaths"])]
    if now["rate"]["last_hour_per_day"] is not None:
        yield "kgqa_items_per_day", "gauge", [({}, round(now["rate"]["last_hour_per_day"], 1))]
    if now["seconds_left"] is not None:
        yield "kgqa_seconds_left", "gauge", [({}, round(now["seconds_left"]))]
