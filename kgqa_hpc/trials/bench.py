"""`kgqa bench`: a configuration's engine measured with real prompts, on the anchors of a run or on a few new ones."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import RunConfig, load_config
from kgqa_hpc.engines.engine import Request
from kgqa_hpc.errors import InputError
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.stages import import_graph, sample
from kgqa_hpc.steps.item import Item
from kgqa_hpc.store.shards import AnchorsFile
from kgqa_hpc.trials.measure import measure


def bench(
    config_file: Path, run: Path | None, *, number: int, batches: list[int] | None = None
) -> dict[str, Any]:
    """Measure the configuration's engine with prompts of `run`, or of its own graph where there is none."""
    config = load_config(config_file)
    engine = config.engine_of(config.passes[0].name)
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch:
        if run is None:
            config, anchors = small_sample(config, number, Path(scratch, "run"))
        else:
            opened, config = open_run(run)
            anchors = opened.anchors
        requests = requests_of(anchors, config, number)
        return measure(engine, requests, Path(scratch, "engine.log"), batches)


def requests_of(anchors: Path, config: RunConfig, number: int) -> list[Request]:
    """The first `number` requests of the run's first pass. Raises InputError where nothing would be asked."""
    chain = build_chain(config, config.passes[0].name)
    if not chain[0].asks:
        raise InputError(
            f"step {chain[0].label} asks nobody, so there is nothing to measure",
            "name a configuration whose first step asks an engine",
        )
    items = [Item(anchor, output=kind_of(config).start(anchor)) for anchor in some_anchors(anchors, number)]
    return [chain[0].request(item, 0, config.seed) for item in items]


def some_anchors(path: Path, number: int) -> list[Anchor]:
    """`number` anchors, spread over the file so that many groups are among them. Raises InputError for none."""
    with AnchorsFile(path) as file:
        stride = max(len(file) // number, 1)
        rows = islice((row for n, row in enumerate(file.rows()) if n % stride == 0), number)
        anchors = [Anchor.from_dict(row) for row in rows]
    if not anchors:
        raise InputError(f"{path} holds no anchors", "sample some first")
    return anchors


def small_sample(config: RunConfig, number: int, folder: Path) -> tuple[RunConfig, Path]:
    """The configuration with just enough anchors, and the anchors.h5 of a run created from it in `folder`."""
    anchors = config.anchors
    key = type(anchors).size
    size = 1 + number // 29 if key == "per_shape" else number
    if hasattr(anchors, key):
        config = config.model_copy(update={"anchors": anchors.model_copy(update={key: size})})
    run = create_run(folder, config)
    import_graph(run.path)
    sample(run.path)
    return config, run.anchors


def render(document: dict[str, Any]) -> str:
    """The measurement as text: a table and an explanation below it."""
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
