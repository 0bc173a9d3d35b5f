"""The status of a run for people (`kgqa status`, `kgqa ls`), and for Prometheus (logs/metrics.prom)."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kgqa_hpc.engines.engine import LOAD
from kgqa_hpc.status.pass_totals import acceptance_words
from kgqa_hpc.status.snapshot import VERDICTS, Status
from kgqa_hpc.text.plain_text import about, duration, plain

WATCH_EVERY = 5.0  # seconds between two refreshes


def render(now: Status) -> str:
    """The status as four to ten lines of text."""
    lines = []
    if "stages" in now:
        done = [stage["name"] for stage in now["stages"] if stage["done"]]
        coming = [f" · next: kgqa {stage['name']}" for stage in now["stages"] if not stage["done"]]
        lines.append(f"stages    {' · '.join(done) or 'none'} done{''.join(coming[:1])}")
    if now.get("dataset_is_older"):
        lines.append("dataset   is older than the run: kgqa merge")
    lines += [*_progress(now), _workers(now["workers"])]
    if "merged" in now:
        lines.append(f"dataset   {now['merged']['accepted']:,} accepted after the filters of merge")
    if "money" in now:
        spent, budget = now["money"]["spent"], now["money"]["budget"]
        lines.append(f"money     {about(spent)}{'' if budget is None else f' of {budget:g}'} spent")
    retries, throttled, waited = (sum(entry["engine"][key] for entry in now["passes"]) for key in LOAD)
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


def _progress(now: Status) -> Iterator[str]:
    """Lines about shards, items and verdicts."""
    shards, items, counts = now["shards"], now["items"], now["verdicts"]
    which = f" of pass {now['pass']}" if len(now["passes"]) > 1 else ""
    yield (
        f"shards    {shards['done']:,} of {shards['total']:,} done{which} · {shards['in_work']:,} in work"
        f" · {shards['quarantined']:,} quarantined"
        if shards["total"]
        else "shards    none yet: kgqa run cuts them"
    )
    text = f"items     {items['ended']:,} of {items['total']:,}"
    overall, recent = now["rate"]["per_day"], now["rate"]["last_hour_per_day"]
    if overall is not None:
        # Less than an hour of work: a rate per day would mislead
        short = items["total"] < overall / 24
        unit, part = ("a minute", 1440) if short else ("a day", 1)
        text += f" · {about(overall / part)} {unit}"
        if recent is not None and not short:
            text += f" (last hour {about(recent)})"
    if now["complete"]:
        text += " · complete"
    elif now["seconds_left"] is not None:
        text += f" · done in about {duration(now['seconds_left'])}"
    yield text
    parts = [acceptance_words(now), *(f"{name} {counts[name]:,}" for name in VERDICTS[1:] if counts[name])]
    yield f"verdicts  {' · '.join(filter(None, parts)) if items['ended'] else 'none yet'}"


def _workers(workers: dict[str, Any]) -> str:
    def some(names: list[str]) -> str:
        return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")

    stalled, silent = workers["stalled"], workers["silent"]
    parts = [f"{workers['alive']:,} alive"]
    if workers["slowest"] is not None and workers["alive"] > 1:
        parts.append(f"slowest {workers['slowest']:.2f}x the mean")
    parts.append(f"{len(stalled)} stalled ({some(stalled)})" if stalled else "none stalled")
    parts += [f"{len(silent)} without a sign of life ({some(silent)})"] if silent else []
    parts += [f"{workers['engine_deaths']:,} engine deaths"] if workers["engine_deaths"] else []
    return f"workers   {' · '.join(parts)}"


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


def render_runs(rows: list[dict[str, Any]], folder: Path) -> str:
    """A line for each run."""
    if not rows:
        return f"no run below {folder}"
    wide, lines = max(len(row["path"]) for row in rows), []
    for row in rows:
        progress = row.get("problem", "")
        if "problem" not in row and row["items"]["total"]:
            merged = f" · {row['merged']:,} in the dataset" if "merged" in row else ""
            ended, total = row["items"]["ended"], row["items"]["total"]
            progress = f"{ended:,} of {total:,} items · {row['accepted']:,} accepted{merged}"
        lines.append(f"{row['path']:<{wide}}  {row['state']:<9}{progress}")
    return "\n".join(lines)


def metrics(now: Status) -> str:
    """The status in the Prometheus text format, for node_exporter's textfile collector."""
    lines = []
    for name, kind, rows in _series(now):
        lines += [f"# TYPE kgqa_{name} {kind}"] if rows else []
        for labels, value in rows:
            pairs = ",".join(f'{key}="{text}"' for key, text in {"run": now["run"], **labels}.items())
            lines.append(f"kgqa_{name}{{{pairs}}} {value}")
    return "\n".join(lines) + "\n"


def _series(now: Status) -> Iterator[tuple[str, str, list[tuple[dict[str, str], Any]]]]:
    """Name, kind and rows (labels, value) of each series."""
    workers, passes, speed = now["workers"], now["passes"], now["rate"]["last_hour_per_day"]
    for key in ("total", "done", "in_work", "quarantined"):
        yield f"shards_{key}", "gauge", [({"pass": now["pass"]}, now["shards"][key])]
    for key in ("total", "ended"):
        yield f"items_{key}", "gauge", [({}, now["items"][key])]
    yield "items", "gauge", [({"verdict": name}, now["verdicts"].get(name, 0)) for name in VERDICTS]
    tokens = [(part["name"], *pair) for part in passes for pair in sorted(part["tokens"].items())]
    yield "tokens", "counter", [({"pass": name, "kind": kind}, number) for name, kind, number in tokens]
    for key, name in zip(LOAD, ("retries", "throttled", "waited_seconds"), strict=True):
        yield f"server_{name}", "counter", [({"pass": part["name"]}, part["engine"][key]) for part in passes]
    spent = now.get("money", {"passes": {}})["passes"]
    yield "money_spent", "counter", [({"pass": name}, number) for name, number in spent.items()]
    yield "workers_alive", "gauge", [({}, workers["alive"])]
    yield "workers_stalled", "gauge", [({}, len(workers["stalled"]))]
    yield "engine_deaths", "gauge", [({}, workers["engine_deaths"])]
    yield "items_per_day", "gauge", [] if speed is None else [({}, round(speed, 1))]
    seconds = now["seconds_left"]
    yield "seconds_left", "gauge", [] if seconds is None else [({}, round(seconds))]
