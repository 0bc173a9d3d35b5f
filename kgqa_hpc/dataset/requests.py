"""Counts of requests by step, prompt and model, and of usable answers.

They are counted from the traces of all items while merge stages them. A request without a usable answer counts as
`errors` (the engine gave no answer), `truncated` (it reached the token limit) or `unparseable`.
"""

from __future__ import annotations

from typing import Any

from kgqa_hpc.dataset.record import TOKENS

_USELESS = {"stop": "unparseable", "length": "truncated"}
_COUNTS = ("requests", "usable", "repaired", "unparseable", "truncated", "errors")


class RequestCounts:
    """Counts of requests per step, prompt and engine."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(self, item: dict[str, Any]) -> None:
        """Count all requests of an item's record."""
        trace = item["trace"]
        last = {entry["step"]: entry for entry in trace}
        if item["status"] in ("invalid", "failed") and trace:
            del last[trace[-1]["step"]]  # the step that gave up had no usable answer
        for entry in trace:
            row = self._row(entry)
            row["requests"] += 1
            usable = last.get(entry["step"]) is entry
            if usable:
                row["usable"] += 1
                row["repaired"] += bool(entry["repaired"])
            else:
                row[_USELESS.get(entry["finish"], "errors")] += 1
            tokens, used = row["tokens"], entry["tokens"]
            tokens["prompt"] += used["prompt"]
            tokens["completion"] += used["completion"]
            tokens["cached"] += used["cached"]

    def _row(self, entry: dict[str, Any]) -> dict[str, Any]:
        prompt, engine = entry["prompt"], entry["engine"]
        key = entry["step"], prompt["name"], prompt["sha256"], *engine.values()
        row = self._rows.get(key)
        if row is None:
            # Some engines do not know their version or the digest of their model.
            if not all(part is None or isinstance(part, str) for part in key):
                raise TypeError(f"step, prompt and engine of a request are texts, not {key}")
            identity = {"step": entry["step"], "prompt": prompt, "engine": engine}
            row = {**identity, **dict.fromkeys(_COUNTS, 0), "tokens": dict.fromkeys(TOKENS, 0)}
            self._rows[key] = row
        return row

    def take(self, rows: list[dict[str, Any]]) -> None:
        """Add the counts of other requests (their `rows()`)."""
        for counts in rows:
            row = self._row(counts)
            for name in _COUNTS:
                row[name] += counts[name]
            for kind in TOKENS:
                row["tokens"][kind] += counts["tokens"][kind]

    def rows(self) -> list[dict[str, Any]]:
        """One row per step, prompt and engine, in an order that depends on their names alone."""
        ordered = sorted(self._rows.items(), key=lambda pair: [part or "" for part in pair[0]])
        return [row for _, row in ordered]
