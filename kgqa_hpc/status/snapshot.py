"""The status of a run, derived from its files alone: progress, rate, stalled workers.

`survey` reads 1 KiB of each new result, the new lines of the journals (the coordinator saves its sums in
status.json) and one small file per worker, so it takes less than two seconds for ten thousand shards. At any moment,
every item is counted as accepted, rejected, invalid, failed or waiting.

The same look at each run below a folder gives the list of `kgqa ls`, and shows whether the files that no result needs
may be deleted (`kgqa clean`).
"""

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from kgqa_hpc.errors import CorruptFile, InputError, KgqaError, MissingFile, StoreError
from kgqa_hpc.status.log_files import ALIVE, DAY, NO_LOAD, read_loads, read_rate, read_states
from kgqa_hpc.status.pass_totals import ENDED, PassTotals, acceptance, money, verdicts
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import disk_errors, names_if_there, read_if_there
from kgqa_hpc.store.partition import ShardsManifest, read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import ANCHORS, count

STALLED = 120.0  # seconds without an answer, with requests in flight, after which a worker counts as stalled
DEEPEST = 3  # depth of the search for runs below a folder
VERDICTS = (*ENDED, "waiting")
Status = dict[str, Any]
Queue = Sequence[dict[str, str]]  # jobs as described by cluster/slurm.py
_OF_A_PASS = ("items", "counts", "reasons", "tokens", "records", "requests", "repaired")
_TOTALS = TypeAdapter(list[PassTotals])


def survey(folder: Path, queue: Queue | None = None) -> Status:
    """The state of a run as plain data; `queue` holds its jobs, if they were requested.

    Raises InputError when there is no run.
    """
    run = RunFolder.open(folder)
    try:
        shards = read_shards_manifest(run)
    except (CorruptFile, MissingFile):
        shards = None  # not cut yet, or damaged; `kgqa run` then cuts the shards again
    totals = load_totals(run, shards.names if shards else [])
    for pass_totals in totals:
        pass_totals.refresh(run)
    drawn = 0  # number of anchors; those added by `kgqa extend` are in no shard until the next `kgqa run`
    with suppress(StoreError, OSError):
        drawn = count(read_header(run.anchors, ANCHORS).get("rows"))
    return compose(run, shards, totals, list(read_states(run.logs)), queue, drawn)


def accepted_at_merge(run: RunFolder) -> int | None:
    """Number of accepted records of the dataset, after merge's filters; None if accounting.json does not give it."""
    try:
        counts = canonical.loads(read_if_there(run.dataset / "accounting.json") or b"")
        return int(counts.get("records", counts)["accepted"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def dataset_is_older(run: RunFolder, status: Status) -> bool:
    """Whether items were drawn or ended, or a pass sent requests, since the dataset was merged.

    False for a damaged accounting.json: every command that reads the dataset reports it.
    """
    try:
        counts = canonical.loads(read_if_there(run.dataset / "accounting.json") or b"")
        sampled, ended = counts["sampled"], counts["sampled"] - counts["waiting"]
        asked = {row["step"] for row in counts["requests"]}
        # For each pass and each of its steps: the labels under which the step may appear in the request counts.
        labels = {
            pass_data["name"]: [
                {step["as"]} if step.get("as") else {step[key] for key in ("use", "prompt") if step.get(key)}
                for step in pass_data["steps"]
            ]
            for pass_data in run.config()["passes"]
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    if (sampled, ended) != (status["items"]["total"], status["items"]["ended"]):
        return True
    return any(
        pass_status["requests"]
        and not any(names & asked for names in labels.get(pass_status["name"], [asked]))
        for pass_status in status["passes"]
    )


def load_totals(run: RunFolder, names: Sequence[str]) -> list[PassTotals]:
    """The totals that the coordinator saved last; empty ones if they are damaged or belong to another run.

    Without `names` (the run's shards), saved totals cannot be continued, and empty ones are returned.
    """
    passes = run.manifest().sections["passes"]["values"]
    in_order = sorted(passes, key=lambda name: passes[name]["position"])
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        document = canonical.loads(read_if_there(run.status_file) or b"{}") if names else {}
        if document["totals_check"] == _check(run, document["totals"]):
            for entry in document["totals"]:
                # If the run has grown since the totals were saved, the last shards have no counts.
                counts = dict(zip(names, entry["by_shard"].split(" "), strict=False))
                counted = ((name, text) for name, text in counts.items() if text != "-")
                entry["by_shard"] = {name: text.split("/") if text else () for name, text in counted}
            totals = _TOTALS.validate_python(document["totals"])
            if [entry.pass_name for entry in totals] == in_order:
                return totals
    return [PassTotals(name, name == in_order[-1]) for name in in_order]


def to_document(run: RunFolder, status: Status, totals: Sequence[PassTotals], names: Sequence[str]) -> bytes:
    """The content of status.json: the state, and the totals that the next process continues.

    `by_shard` is a text without the names of the run's shards, because it is written every few seconds: in their order
    "-" or the counts of each. Totals with the result of an unknown shard are not saved.
    """
    unknown = any(entry.by_shard.keys() - set(names) for entry in totals)
    saved = _TOTALS.dump_python([] if unknown else list(totals))
    for entry in saved:
        counts = entry["by_shard"]
        entry["by_shard"] = " ".join(
            "/".join(map(str, counts[name])) if name in counts else "-" for name in names
        )
    return canonical.pretty({**status, "totals": saved, "totals_check": _check(run, saved)})


def _check(run: RunFolder, totals: Any) -> str:
    """Checksum of the run and its passes, which saved totals must match."""
    return canonical.digest([run.manifest().digest, totals])


def compose(
    run: RunFolder,
    shards: ShardsManifest | None,
    totals: Sequence[PassTotals],
    states: Sequence[Status],
    queue: Queue | None,
    drawn: int = 0,
) -> Status:
    """The state from refreshed `totals`, which are in the order of the passes; `drawn` anchors are in anchors.h5."""
    cut = len(shards.shards) if shards else 0
    in_shards = sum(entry.items for entry in shards.shards) if shards else 0
    items = max(in_shards, drawn)
    unfinished = [entry for entry in totals if len(entry.by_shard) < cut]
    current, complete = (unfinished or totals[-1:])[0], cut > 0 and items == in_shards and not unfinished
    counts = verdicts(totals, items)
    work = {"total": items * len(totals), "ended": sum(entry.through for entry in totals)}
    overall, last_hour = read_rate(run.logs)
    per_day = last_hour or overall
    alive = [state for state in states if state["age"] <= ALIVE]
    loads, spent = read_loads(run.logs), money(run, totals)
    return {
        "run": run.name,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "complete": complete,
        "pass": current.pass_name,
        "shards": {
            "total": cut,
            "done": len(current.by_shard),
            "in_work": 0 if complete else sum(count(state.get("open_shards")) for state in alive),
            "quarantined": sum(name.endswith(".reason.json") for name in names_if_there(run.quarantine)),
        },
        "items": {"total": items, "ended": sum(counts.values()) - counts["waiting"]},
        "verdicts": counts,
        "acceptance": acceptance(counts),
        "reasons": dict(totals[-1].reasons),
        "passes": [
            {
                "name": entry.pass_name,
                "shards_done": len(entry.by_shard),
                **{key: getattr(entry, key) for key in _OF_A_PASS},
                "engine": {"requests": entry.requests, **loads.get(entry.pass_name, NO_LOAD)},
            }
            for entry in totals
        ],
        "work": work,
        "rate": {"per_day": overall, "last_hour_per_day": last_hour},
        "seconds_left": max(work["total"] - work["ended"], 0) / per_day * DAY
        if per_day and not complete
        else None,
        "workers": _workers([] if complete else states, alive),
        "journal_answers": sum(shard.answers for entry in totals for shard in entry.journals.values()),
        "queue": None if queue is None else list(queue),
        **({"money": spent} if spent else {}),
    }


def _workers(states: Sequence[Status], alive: Sequence[Status]) -> Status:
    """Counts of workers by state, from all worker `states`; in a complete run no worker counts as missing."""
    worked = [(count(state.get("ended")), count(state.get("up"))) for state in alive]
    speeds = [ended / seconds for ended, seconds in worked if ended and seconds > 60]
    return {
        "alive": len(alive),
        "silent": [state.get("worker") for state in states if state["age"] > ALIVE],
        "stalled": [
            s["worker"] for s in alive if count(s.get("in_flight")) and count(s.get("silent")) > STALLED
        ],
        "slowest": max(sum(speeds) / len(speeds) / min(speeds), 1.0) if speeds else None,
        "engine_deaths": sum(count(state.get("deaths")) for state in alive),
        "retries": sum(count(state.get("retries")) for state in alive),
        "list": list(alive),
    }


def runs_below(folder: Path) -> list[dict[str, Any]]:
    """One mapping for each run: path, state, items, verdicts; `problem` for a run that cannot be read.

    Folders that this user may not enter, and those that disappear meanwhile, are left out.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder", "kgqa ls FOLDER lists the runs in it")

    def leave_out(problem: OSError) -> None:
        if not isinstance(problem, PermissionError | FileNotFoundError):
            raise problem

    runs: list[Path] = []
    for name, inner, files in os.walk(folder, onerror=leave_out):
        path = Path(name)
        is_run = {"manifest.json", "config.yaml"} <= set(files)
        runs += [path] if is_run else []
        deepest = len(path.relative_to(folder).parts) == DEEPEST
        inner[:] = [] if is_run or deepest else [entry for entry in inner if not entry.startswith(".")]
    return [_described(path) for path in sorted(runs)]


def _described(path: Path) -> dict[str, Any]:
    try:
        run, now = RunFolder.open(path), survey(path)
        merged = accepted_at_merge(run)
    except KgqaError as problem:
        return {"path": str(path), "state": "damaged", "problem": problem.message}
    states = {
        "running": now["workers"]["alive"],
        "merged": now["complete"] and merged is not None and not dataset_is_older(run, now),
        "complete": now["complete"],
        "stopped": now["items"]["ended"],
        "sampled": run.anchors.exists(),
        "new": True,
    }
    return {
        "path": str(path),
        "state": next(state for state, holds in states.items() if holds),
        "items": now["items"],
        "accepted": now["verdicts"]["accepted"],
        **({} if merged is None else {"merged": merged}),
        "workers": now["workers"]["alive"],
    }


def leftovers(folder: Path) -> list[dict[str, Any]]:
    """The parts of a run that may be deleted (docs/reference/format.md, section 1), with their bytes.

    Raises InputError while workers are alive, for they write there.
    """
    run = RunFolder.open(folder)
    if alive := survey(folder)["workers"]["alive"]:
        raise InputError(f"{folder}: {alive} workers are at work", "clean it when they have ended")
    parts = (run.path / "leases", run.logs, run.quarantine, run.status_file)
    documents = []
    for part in filter(Path.exists, parts):
        files = part.rglob("*") if part.is_dir() else [part]
        size = sum(file.lstat().st_size for file in files if not file.is_dir())
        documents.append({"path": str(part), "bytes": size})
    return documents


def clean(parts: list[dict[str, Any]]) -> None:
    """Delete the files that `leftovers` returned."""
    for part in parts:
        path = Path(part["path"])
        with disk_errors(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
