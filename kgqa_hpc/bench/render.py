"""The measurement of an engine for a person."""

from __future__ import annotations

from typing import Any


def render(document: dict[str, Any]) -> str:
    """A table, and below it what it means."""
    engine = " ".join(part for key, part in document["engine"].items() if key in ("name", "version", "model"))
    lines = [
        f"engine    {engine} on {document['gpu'] or 'no GPU'}",
        f"start     {document['load_s']:.1f} s to load, {document['preflight_s']:.2f} s to compile the schemas",
        "",
        "mode      batch  decode tok/s  prefill tok/s  requests/s  first s  total s  busy  prefix  roofline  lost",
    ]
    for row in document["rows"]:
        lines.append(
            f"{row['mode']:<9} {row['batch']:>5}  {row['decode_tokens_per_s']:>12,.1f}  "
            f"{row['prefill_tokens_per_s']:>13,.1f}  {row['requests_per_s']:>10.2f}  "
            f"{_number(row['first_token_s']['median']):>7}  {_number(row['latency_s']['median']):>7}  "
            f"{_share(row['gpu_busy']):>4}  {_share(row['prefix_hit_share']):>6}  "
            f"{_share(row['share_of_roofline']):>8}  {row['failed']:>4}"
        )
    best = document["best"]
    lines += [
        "",
        f"best      {best['decode_tokens_per_s']:,.1f} answer tokens/s guided, {best['batch']} requests in flight",
        f"grammar   {_share(document['grammar_share'])} of the time of an answer",
    ]
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
