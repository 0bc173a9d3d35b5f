"""Runs that are made to learn something: a study of variants, judges of rated pairs, a few items, an engine's speed.

Each is the ordinary stages (stages.py) over a configuration that is cut to the purpose.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.runs import create_run, open_run
from kgqa_hpc.stages import STAGES, import_graph, init, sample
from kgqa_hpc.steps import STEPS
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.canonical import canonical


def study(
    config_file: Path, folder: Path, *, threads: int | None = None, price: tuple[float, float] | None = None
) -> dict[str, Any]:
    """A study from its configuration to RUN/study, resumable; its result. `price`: evaluate/study.py."""
    from kgqa_hpc.evaluate.study import write_study

    config = load_config(config_file)
    if config.variants is None:
        raise InputError(
            f"{config_file}: has no variants to compare", "kgqa init --example study FILE shows some"
        )
    run = init(config_file, folder)
    for stage in STAGES:
        if stage.name != "report":
            stage.work(folder, threads)
    return write_study(run, config, price=price, seed=config.seed)


def ask_judges(config_file: Path, ratings: Any, folder: Path) -> Path:
    """Have the judging and scoring steps of a configuration judge rated pairs, in a run of kind `records`.

    `ratings` as evaluate/ratings.py reads them. Returns the merged run, resumable in its folder. Raises
    ConfigError for a configuration without such steps.
    """
    plain = load_config(config_file).plain()
    for each in plain["passes"]:
        each["steps"] = [
            s for s in each["steps"] if STEPS.get(s["use"]).adds == "verdict" or s["use"] == "score"
        ]
    plain["passes"] = [each for each in plain["passes"] if each["steps"]]
    if not plain["passes"]:
        raise ConfigError(f"{config_file}: has no step that judges or scores", "add one: steps: [judge]")
    pairs = {row.id: {"id": row.id, "question": row.question, "answer": row.answer} for row in ratings.rated}
    make_folder(folder)
    source = folder / "pairs.jsonl"
    write_file(source, b"".join(canonical(pair) + b"\n" for pair in pairs.values()))
    anchors = {"kind": "records", "from": str(source.resolve()), "where": {}}
    dataset = {"decide": plain["dataset"]["decide"], "z_score": None}
    kept = {key: plain[key] for key in ("seed", "prompts", "engine", "passes", "runtime")}
    run = create_run(
        folder / folder.name, parse_config({**kept, "anchors": anchors, "dataset": dataset}, str(config_file))
    )
    for stage in STAGES:
        if stage.name not in ("import", "report"):
            stage.work(run.path, None)
    return run.path


def bench(
    config_file: Path, run: Path | None, *, number: int, batches: list[int] | None = None
) -> dict[str, Any]:
    """Measure the configuration's engine with prompts of `run`, or of its own graph where there is none."""
    from kgqa_hpc.bench.measure import measure
    from kgqa_hpc.bench.prompts import requests_of

    config = load_config(config_file)
    engine = config.engine_of(config.passes[0].name)
    with tempfile.TemporaryDirectory(prefix="kgqa-bench-") as scratch:
        if run is None:
            config, anchors = _small_sample(config, number, Path(scratch, "run"))
        else:
            opened, config = open_run(run)
            anchors = opened.anchors
        requests = requests_of(anchors, config, number)
        return measure(engine, requests, Path(scratch, "engine.log"), batches)


def preview(config_file: Path, number: int) -> dict[str, Any]:
    """A few items through all steps of a configuration, without a run."""
    from kgqa_hpc.bench.preview import preview as through
    from kgqa_hpc.bench.prompts import some_anchors

    with tempfile.TemporaryDirectory(prefix="kgqa-preview-") as scratch:
        config, anchors = _small_sample(load_config(config_file), number, Path(scratch, "run"))
        return through(config, some_anchors(anchors, number), Path(scratch, "engine.log"))


def _small_sample(config: Any, number: int, folder: Path) -> tuple[Any, Path]:
    """The configuration with just enough anchors, and the anchors.h5 of a run made of it in `folder`."""
    anchors = config.anchors
    key = type(anchors).size
    size = 1 + number // 29 if key == "per_shape" else number
    if hasattr(anchors, key):
        config = config.model_copy(update={"anchors": anchors.model_copy(update={key: size})})
    run = create_run(folder, config)
    import_graph(run.path)
    sample(run.path)
    return config, run.anchors
