"""Commands that change nothing: status, plan, explain, replay, doctor, count, and trials of a configuration."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from kgqa_hpc.cli.app import AsJson, Config, Run, Threads, TrustConfig, app, print_result, say, seconds


@app.command()
def status(
    run: Run,
    watch: Annotated[bool, Option("--watch", help="Refresh until the run is complete.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show finished and remaining work, speed, and stalled workers."""
    from kgqa_hpc.stages import standing
    from kgqa_hpc.status import render as room

    if watch:
        room.watch(lambda: standing(run))
    else:
        now = standing(run)
        print_result(now, room.render(now), as_json)


@app.command()
def plan(
    run: Run,
    gpus: Annotated[int, Option(min=1, help="Number of GPUs that work in parallel.")] = 1,
    time: Annotated[
        str | None, Option(help="Time limit of a job; default: runtime.time_limit or 2 days.")
    ] = None,
    pilot: Annotated[
        Path | None, Option(help="Small finished run on the same engine, for measured speeds.")
    ] = None,
    pilot_gpus: Annotated[int, Option(min=1, help="Number of GPUs of the pilot run.")] = 1,
    tokens_per_second: Annotated[
        float | None, Option(min=0.01, help="Tokens that one GPU generates per second.")
    ] = None,
    price: Annotated[
        tuple[float, float] | None,
        Option(
            help="Prices of a million input tokens and a million output tokens, to estimate the cost with its interval."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate GPU-hours, wall time, jobs, disk and cost of a run, with the assumptions."""
    from kgqa_hpc.status import forecast as room

    document = room.plan(
        run,
        gpus=gpus,
        limit=None if time is None else seconds("--time", time),
        pilot=pilot,
        pilot_gpus=pilot_gpus,
        tokens_per_s=tokens_per_second,
        price=price,
    )
    print_result(document, room.render(document), as_json)


@app.command()
def explain(
    run: Run,
    items: Annotated[list[str], Argument(metavar="ITEM", help="Ids of records or anchors.")],
    as_json: AsJson = False,
) -> None:
    """Show the full history of items: anchor, prompts, raw outputs, verdicts, versions."""
    from kgqa_hpc.dataset import explain as room

    stories = [room.explain(run, item) for item in items]
    text = "\n\n".join(map(room.render, stories))
    print_result(stories if len(stories) > 1 else stories[0], text, as_json)


@app.command()
def replay(
    run: Run,
    item: Annotated[str, Argument(metavar="ITEM", help="The id of a record or anchor.")],
    trust_config: TrustConfig = False,
    as_json: AsJson = False,
) -> None:
    """Repeat an item's requests and show how the answers differ. Nothing is written into the run."""
    from kgqa_hpc.trials import replay as room

    document = room.replay(run, item, trust=trust_config)
    print_result(document, room.render(document), as_json)


@app.command()
def doctor(
    gpu: Annotated[
        bool, Option("--gpu", help="Also test a GPU kernel, guided decoding, and a start on two GPUs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check this machine, and print a command that fixes each failed check."""
    from dataclasses import asdict

    from kgqa_hpc import doctor as room

    checks = room.diagnose()
    if gpu:
        from kgqa_hpc.doctor.gpu import gpu_checks

        checks += gpu_checks()
    print_result([asdict(check) for check in checks], room.render(checks), as_json)
    raise typer.Exit(room.exit_code(checks))


@app.command()
def count(
    nodes: Annotated[str, Option(help="CSV with id,name,type (.gz allowed).")],
    edges: Annotated[str, Option(help="CSV with source_id,target_id,type (.gz allowed).")],
    min_degree: Annotated[int, Option(min=0, help="Smallest degree of a node in the reduced graph.")] = 3,
    max_degree: Annotated[int, Option(min=1, help="Largest degree of a node in the reduced graph.")] = 100,
    backend: Annotated[Literal["native", "graph-tool"], Option(help="Program that counts.")] = "native",
    unknown_nodes: Annotated[
        Literal["error", "drop"], Option(help="Treatment of edges with unknown nodes.")
    ] = "error",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Count the 29 graphlet shapes of a reduced graph exactly, without a run."""
    from kgqa_hpc import stages

    files = {"source": "csv", "nodes": nodes, "edges": edges, "unknown_nodes": unknown_nodes}
    limits = {"min_degree": min_degree, "max_degree": max_degree}
    document = stages.count({**files, **limits}, backend, threads)
    print_result(document, stages.count_table(document), as_json)


@app.command()
def bench(
    config: Config,
    run: Annotated[
        Path | None,
        Option("--run", help="Run whose prompts to measure with; default: prompts over CONFIG's graph."),
    ] = None,
    number: Annotated[
        int | None,
        Option("-n", "--number", min=1, help="Prompts per measurement; default: three times its batch."),
    ] = None,
    batch: Annotated[
        list[int] | None, Option("--batch", min=1, help="Number of requests in flight; may be repeated.")
    ] = None,
    out: Annotated[
        Path | None,
        Option("--out", help="Also write the JSON here, after each measurement, for plan --pilot."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure CONFIG's engine on this machine: tokens per second, latency, cost of guided decoding."""
    import json
    from typing import Any

    from kgqa_hpc.store.atomic import write_file
    from kgqa_hpc.trials import bench as room

    def row_done(document: dict[str, Any]) -> None:
        if out is not None:
            write_file(out, json.dumps(document, indent=2).encode() + b"\n")
        lines = room.header(document) if len(document["rows"]) == 1 else []
        for line in (*lines, room.row_line(document["rows"][-1])):
            say(line, aside=as_json)

    document = room.bench(config, run, number=number, batches=batch, row_done=row_done)
    print_result(document, "\n".join(room.summary(document)), as_json)


@app.command()
def preview(
    config: Config,
    number: Annotated[int, Option("-n", "--number", min=1, max=1000, help="Number of items.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Process a few items with all steps before a run exists; show tokens and seconds of each."""
    from kgqa_hpc import run as room

    document = room.Run.from_config(config, "preview").preview(number)
    print_result(document, document, as_json)
