"""Forecast of a run before it starts: GPU-hours, wall time, jobs, disk and money, with all assumptions.

The time per item comes from the first of these that is known: tokens per second given by the user
together with the answer lengths of a pilot; the rate of a pilot on the chosen engine; published figures.

Money is the tokens of a pilot at the prices of the engines. The cost of an item is the ratio of the sums of cost and
items over shards, its 95 % interval comes from how much shards differ (ratio estimator, Student's t).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kgqa_hpc.config import RunConfig
from kgqa_hpc.engines.engine import Price
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import chain, open_run
from kgqa_hpc.status.log_files import DAY
from kgqa_hpc.status.snapshot import Status, survey
from kgqa_hpc.store import queue, sealed, shards
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import about, duration, shell_word
from kgqa_hpc.text.streams import read_bytes

# Assumed time limit of a job in seconds: two days, as in the published runs (Appendix A).
QUEUE_LIMIT = 172_800.0
ENOUGH = 20  # smallest number of finished items of a pilot before its rate and tokens are used
START_UP = 300.0  # seconds until a job's engine answers; assumed: loading 40 GB of weights at 200 MB/s

# BioGraphletQA on one A6000 with a 4-bit 70B model: pairs generated and judged per day, and tokens/s of
# generation (sections 3.2.2 and 3.3). The tokens of an item are derived from both.
# We assume that the judge wrote as many tokens a second.
PUBLISHED_PER_DAY = {"generate": 27_821.0, "judge": 45_674.0}
PUBLISHED_TOKENS_PER_S = 241.0
PUBLISHED_TOKENS = {step: PUBLISHED_TOKENS_PER_S * DAY / pairs for step, pairs in PUBLISHED_PER_DAY.items()}
PUBLISHED_DAYS = {step: 1 / pairs for step, pairs in PUBLISHED_PER_DAY.items()}
PUBLISHED_PACE = "the published rates of one A6000 with a 4-bit 70B model (3.2.2, 3.3)"
# Assumed bytes on disk per answer token, results and dataset together, where no pilot has measured them:
# four characters a token, stored compressed in a result and plain in JSON lines and Parquet.
BYTES_PER_TOKEN = 12.0


class Pace(NamedTuple):
    """GPU-seconds and answer tokens of one item through all steps, and the source of the figures."""

    seconds: float
    tokens: float
    source: str


class Pilot(NamedTuple):
    """Measurements of a run: items per day through all steps (None: not known yet), answer tokens per item."""

    run: str
    per_day: float | None
    tokens: float


def plan(
    folder: Path,
    *,
    gpus: int = 1,
    limit: float | None = None,
    pilot: Path | None = None,
    pilot_gpus: int = 1,
    tokens_per_s: float | None = None,
    price: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """The forecast as plain data.

    `gpus` work side by side in jobs of at most `limit` seconds. `pilot` is a run, or a file of `kgqa bench --out`, with
    measured tokens and rate (default: this run, once it has finished some items), made with `pilot_gpus`.
    `tokens_per_s` is the output of one GPU over all requests. `price`, or the prices of the engines, add the cost of
    the remaining items. The forecast for an engine on another party's server has no GPUs and jobs.
    Raises InputError for a folder that is no run, a pilot without measurements, or a negative price.
    """
    if price is not None and not all(0 <= number < math.inf for number in price):
        raise InputError(f"--price {price[0]:g} {price[1]:g}: a price is 0 or more")
    run, config = open_run(folder)
    steps = [step.use for step in config.steps]
    if pilot is not None and pilot.is_file():
        measured, speed = read_bench(pilot, steps)
        origin = "as given" if tokens_per_s else "as measured"
        pace = item_pace(steps, measured, 1, tokens_per_s or speed / pilot_gpus, origin)
    else:
        pace = item_pace(
            steps, _read_pilot(pilot or folder, required=pilot is not None), pilot_gpus, tokens_per_s
        )
    unfinished = _items(run, config) - _ended(config, survey(folder))
    items = math.ceil(round(unfinished, 6))  # the shares of the passes sum to 1 except for rounding errors
    if all(engine.hosted for engine in config.engines):
        document = hosted_forecast(items, pace)
    else:
        limit = limit or config.runtime.time_limit or QUEUE_LIMIT
        document = forecast(items, pace, gpus, limit, config.runtime.margin)
    measured_run = pilot if pilot is not None and pilot.is_dir() else folder
    if price is not None:
        prices = [Price(input=price[0], output=price[1])]
        document["cost"] = cost_of(measured_run, items, prices)
    elif any(engine.price for engine in config.engines):
        prices = [engine.price or Price(input=0, output=0) for engine in config.engines]
        try:
            document["cost"] = cost_of(measured_run, items, prices)
        except InputError as few:  # the rest of the plan does not need the cost
            document["assumptions"].append(f"no cost: {few.message}")
    return document


def _read_pilot(folder: Path, *, required: bool) -> Pilot | None:
    """Measurements of a pilot run. With too few finished items: None, or InputError if the pilot is `required`."""
    _, config = open_run(folder)
    state = survey(folder)
    through_a_pass = sum(entry["items"] for entry in state["passes"])
    if through_a_pass < ENOUGH:
        if not required:
            return None
        raise InputError(
            f"{folder}: a pilot needs {ENOUGH} items in finished shards",
            "kgqa run it to its end with a small anchors.per_shape and runtime.shard_size",
        )
    tokens = sum(
        entry["tokens"].get("completion", 0) / entry["items"]
        if entry["items"]
        else _published(PUBLISHED_TOKENS, [step.use for step in settings.steps])
        for settings, entry in zip(config.passes, state["passes"], strict=True)
    )
    per_day = state["rate"]["per_day"]
    whole = None if per_day is None else per_day * _ended(config, state) / through_a_pass
    return Pilot(state["run"], whole, tokens)


def read_bench(file: Path, steps: Sequence[str]) -> tuple[Pilot, float]:
    """Answer tokens per item and tokens per second from a file of `kgqa bench`. Raises InputError.

    It measured the steps of the first pass; the tokens of later passes are scaled by their published lengths.
    """
    try:
        document = json.loads(read_bytes(file))
        best, measured = document["best"], [str(step) for step in document["steps"]]
        speed, tokens = float(best["decode_tokens_per_s"]), float(best["tokens_per_item"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{file}: not a measurement of kgqa bench --out", "make it again") from None
    if not (speed > 0 and tokens > 0 and math.isfinite(speed * tokens)):
        raise InputError(
            f"{file}: the measured engine answered nothing, or reported no tokens", "make it again"
        )
    of_measured = _published(PUBLISHED_TOKENS, measured) or PUBLISHED_TOKENS["generate"]
    scale = _published(PUBLISHED_TOKENS, steps) / of_measured
    return Pilot(file.name, None, tokens * max(scale, 1.0)), speed


def item_pace(
    steps: Sequence[str],
    pilot: Pilot | None,
    pilot_gpus: int = 1,
    tokens_per_s: float | None = None,
    origin: str = "as given",
) -> Pace:
    """The pace of one item through `steps` on one GPU, from the first known of the sources named above.

    `origin` says where `tokens_per_s` comes from.
    """
    tokens = pilot.tokens if pilot else _published(PUBLISHED_TOKENS, steps)
    if tokens_per_s is not None:
        derived = "answer lengths derived from published rates, all steps at one speed"
        source = f"answer lengths of pilot {pilot.run}" if pilot else derived
        return Pace(tokens / tokens_per_s, tokens, f"{tokens_per_s:g} tokens/s per GPU {origin}; {source}")
    if pilot and pilot.per_day:
        per_day = pilot.per_day / pilot_gpus
        return Pace(DAY / per_day, tokens, f"pilot {pilot.run}: {per_day:,.0f} items a day per GPU")
    return Pace(DAY * _published(PUBLISHED_DAYS, steps), tokens, PUBLISHED_PACE)


def _published(figures: Mapping[str, float], steps: Iterable[str]) -> float:
    """Answer tokens (PUBLISHED_TOKENS) or days (PUBLISHED_DAYS) of an item through these steps, as published."""
    return sum(figures.get(step, 0.0) for step in steps)


def forecast(items: int, pace: Pace, gpus: int, limit: float, margin: float) -> dict[str, Any]:
    """GPU-hours, wall time, jobs and disk for `items` at a pace; `limit` and `margin` in seconds."""
    usable = limit - margin - START_UP
    if usable <= 0:
        raise InputError(
            f"a limit of {duration(limit)} leaves no time between {duration(START_UP)} to start"
            f" and a margin of {duration(margin)}",
            "ask for longer jobs or set runtime.margin lower",
        )
    wall = items * pace.seconds / gpus
    per_gpu = math.ceil(wall / usable) if items else 0
    start = "1 GPU starts at once" if gpus == 1 else f"{gpus} GPUs share the work evenly and start at once"
    return {
        **_amounts(items, pace),
        "gpus": gpus,
        "gpu_hours": (items * pace.seconds + per_gpu * gpus * START_UP) / 3600,
        "wall_seconds": wall + per_gpu * START_UP,
        "jobs": per_gpu * gpus,
        "limit_seconds": limit,
        "assumptions": [
            pace.source,
            f"{pace.seconds:.2f} GPU-seconds and {pace.tokens:.0f} answer tokens per item",
            f"{start}; time in the queue is not counted",
            f"a job takes {duration(START_UP)} to load the model, stops {duration(margin)} before its limit",
            f"{BYTES_PER_TOKEN:g} bytes on the disk per answer token",
        ],
    }


def hosted_forecast(items: int, pace: Pace) -> dict[str, Any]:
    """Time and disk for `items` with another party's server; no time without a measurement."""
    measured = pace.source != PUBLISHED_PACE
    source = f"{pace.source.replace(' per GPU', '')}, all requests together"
    return {
        **_amounts(items, pace),
        "wall_seconds": items * pace.seconds if measured else None,
        "assumptions": [
            source if measured else "answer lengths derived from published rates",
            f"{pace.tokens:.0f} answer tokens per item",
            f"{BYTES_PER_TOKEN:g} bytes on the disk per answer token",
        ],
    }


def _amounts(items: int, pace: Pace) -> dict[str, Any]:
    tokens = items * pace.tokens
    return {"items": items, "disk_bytes": round(tokens * BYTES_PER_TOKEN), "answer_tokens": round(tokens)}


def cost_of(pilot: Path, items: int, prices: Sequence[Price]) -> dict[str, Any]:
    """Tokens and cost of `items` at the rate of a run's finished shards; the interval is None with one shard.
    `prices`: one price per pass; the last price applies to any further pass of the pilot.

    Raises InputError if fewer than ENOUGH items are finished: no published figure gives the number of prompt tokens.
    """
    run, config = open_run(pilot)
    names = [entry.name for entry in config.passes]
    last = len(prices) - 1
    sizes: list[int] = []
    costs: list[float] = []
    tokens: Counter[str] = Counter()
    for shard in sorted(set.intersection(*(queue.done_shards(run, name) for name in names))):
        headers = [shards.read_summary(run.result(name, shard), run.origin(name)) for name in names]
        sizes.append(int(headers[-1]["rows"]))
        costs.append(sum(prices[min(n, last)].of(header["tokens"]) for n, header in enumerate(headers)))
        for header in headers:
            tokens.update(header["tokens"])
    number = sum(sizes)
    if number < ENOUGH:
        raise InputError(
            f"{pilot}: a cost needs the tokens of {ENOUGH} items in finished shards, there are {number}",
            "name a small run on the same engine with --pilot (a smaller anchors.per_shape and runtime.shard_size)",
        )
    mean, half = sum(costs) / number, _half_width(sizes, costs)
    return {
        "price": [prices[0].input, prices[0].output],
        "prompt_tokens": round(items * tokens["prompt"] / number),
        "completion_tokens": round(items * tokens["completion"] / number),
        "total": items * mean,
        "low": None if half is None else items * max(mean - half, 0.0),
        "high": None if half is None else items * (mean + half),
        "measured_items": number,
        "measured_cost": sum(costs),
    }


def _half_width(sizes: Sequence[int], costs: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the cost of an item; None with one shard."""
    from scipy.stats import t

    number, total = len(sizes), sum(sizes)
    if number < 2:
        return None
    mean = sum(costs) / total
    spread = sum((cost - mean * size) ** 2 for size, cost in zip(sizes, costs, strict=True))
    return float(t.ppf(0.975, number - 1)) * math.sqrt(number / (number - 1) * spread) / total


def render(document: dict[str, Any]) -> str:
    """The forecast as text."""
    lines = [f"items     {document['items']:,} left · {about(document['answer_tokens'])} answer tokens"]
    if "cost" in document:
        cost = document["cost"]
        interval = f" ({about(cost['low'])} to {about(cost['high'])})" if cost["low"] is not None else ""
        read, written = (about(cost[f"{kind}_tokens"] / 1e6) for kind in ("prompt", "completion"))
        lines.append(
            f"cost      about {about(cost['total'])}{interval} for {read} million tokens read and {written} million "
            f"written, at {cost['price'][0]:g} and {cost['price'][1]:g} a million"
        )
    if "jobs" in document:
        count = document["gpus"]
        lines += [
            f"GPU       {about(document['gpu_hours'])} hours on {count} GPU{'s' * (count != 1)}",
            f"time      {duration(document['wall_seconds'])} without waiting in the queue",
            f"jobs      {document['jobs']:,} of at most {duration(document['limit_seconds'])}, one GPU each",
        ]
    elif document["wall_seconds"] is None:
        lines.append("time      not known: this server was not measured (run some items, or use --pilot)")
    else:
        lines.append(f"time      {duration(document['wall_seconds'])} at the speed of the pilot")
    lines.append(f"disk      {about(document['disk_bytes'] / 1e9)} GB for results and dataset")
    return "\n".join([*lines, *(f"assumed   {assumption}" for assumption in document["assumptions"])])


def _items(run: RunFolder, config: RunConfig) -> int:
    """Number of items of the run: the sampled ones, or before sampling the configured number."""
    if run.anchors.exists():
        return int(sealed.read_header(run.anchors, "anchors")["rows"])
    drawn = list(config.variant_configs().values()) or [config]
    expected = [chain.kind_of(section).expected(section.anchors) for section in drawn]
    if None in expected:
        raise InputError(f"{run.path}: nothing was sampled yet", f"first: kgqa sample {shell_word(run.path)}")
    return sum(filter(None, expected))


def _ended(config: RunConfig, state: Status) -> float:
    """Number of finished items; an item that has passed some passes counts with their share of the published time."""
    variants = len({entry.variant for entry in config.passes if entry.variant})
    days = [
        _published(PUBLISHED_DAYS, [step.use for step in entry.steps]) / (variants if entry.variant else 1)
        for entry in config.passes
    ]
    days = days if any(days) else [1.0] * len(days)  # equal shares if no step has a published time
    ended = zip(days, state["passes"], strict=True)
    return float(sum(part * entry["items"] for part, entry in ended) / sum(days))
