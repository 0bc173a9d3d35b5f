"""The state of a run for Prometheus: logs/metrics.prom, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kgqa_hpc.status.snapshot import VERDICTS, Status


def metrics(now: Status) -> str:
    """The Prometheus text format."""
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
        ({"pass": one["name"], "kind": kind}, number)
        for one in now["passes"]
        for kind, number in sorted(one["tokens"].items())
    ]
    if tokens:
        yield "kgqa_tokens", "counter", tokens
    workers = now["workers"]
    yield "kgqa_workers_alive", "gauge", [({}, workers["alive"])]
    yield "kgqa_workers_stalled", "gauge", [({}, len(workers["stalled"]))]
    yield "kgqa_engine_deaths", "gauge", [({}, workers["engine_deaths"])]
    if now["rate"]["last_hour_per_day"] is not None:
        yield "kgqa_items_per_day", "gauge", [({}, round(now["rate"]["last_hour_per_day"], 1))]
    if now["seconds_left"] is not None:
        yield "kgqa_seconds_left", "gauge", [({}, round(now["seconds_left"]))]
