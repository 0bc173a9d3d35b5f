"""`kgqa explain`: the anchor, prompts, raw answers, verdicts, versions and files of an item, as data and as text.

Prompts are not stored with the item but rendered again from the prompt modules. Each request holds the sha256 of
its module; a prompt whose module has changed since is not shown.
"""

import json
from collections.abc import Sequence
from functools import partial
from os.path import commonprefix
from pathlib import Path
from textwrap import wrap
from typing import Any

from kgqa_hpc import __version__
from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.config import PassConfig, RunConfig, decision_of
from kgqa_hpc.dataset.accounting import LENGTH
from kgqa_hpc.dataset.card import templates
from kgqa_hpc.dataset.filters import REASONS
from kgqa_hpc.dataset.read import has_ended, stored_records
from kgqa_hpc.errors import InputError, PromptError
from kgqa_hpc.runs import kept_prompts, run_config
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.item import Item, begin
from kgqa_hpc.steps.step import Step, retrace
from kgqa_hpc.store.partition import read_shards_manifest
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile
from kgqa_hpc.text.plain_text import plain, plain_line, shell_word

WIDTH = 110
SHOWN = 300  # largest number of characters shown of a value


def explain(folder: Path, item: str) -> dict[str, Any]:
    """The history of one item as plain data. `item` is the id of an item or of a record (ID.NUMBER), or a
    unique prefix of an id. For a record, the member `record` has its number and its own fields.

    Works during a run. Raises InputError for an unknown id (with the nearest ids), CorruptFile.
    """
    run = RunFolder.open(folder)
    config = run_config(run)
    row, anchor = _find(run, item)
    state, shard, file, stored = _locate(run, config, row, anchor.id)
    record = stored or Item(anchor).to_record()
    passes = [entry for entry in config.passes if entry.variant in (None, anchor.data.get("variant"))]
    steps = _steps(config, passes, kept_prompts(run))
    status, reason = _outcome(run, config, record)
    return {
        "id": anchor.id,
        **_record_of(item, anchor.id, record),
        "state": state,
        "status": status,
        "reason": reason,
        "where": {
            "run": str(run.path),
            "anchor": f"{run.anchors.name} row {row}",
            "shard": shard,
            "record": str(file.relative_to(run.path)) if file else None,
        },
        "anchor": anchor.to_dict(),
        "output": record["output"],
        "verdicts": record["verdicts"],
        "features": record["features"],
        "steps": _given(passes, record),
        "requests": _requests(anchor, record, steps, config),
        "versions": {
            "program": __version__,
            "run": run.manifest().digest,
            "made_with": run.manifest().program,
        },
    }


def recorded(run: RunFolder, config: RunConfig, record_id: str) -> tuple[Anchor, dict[str, Any] | None]:
    """An anchor and the stored record of its item (None while it waits). Raises InputError, CorruptFile."""
    row, anchor = _find(run, record_id)
    return anchor, _locate(run, config, row, anchor.id)[-1]


def _record_of(record_id: str, item: str, history: dict[str, Any]) -> dict[str, Any]:
    """The record with the id ID.NUMBER; empty if the id is that of an item."""
    number = record_id.removeprefix(f"{item}.")
    if record_id == number:
        return {}
    records = history.get("records") or []
    if not 1 <= int(number) <= len(records):
        raise InputError(f"{record_id}: no such record", f"item {item} has {len(records):,} so far")
    return {"record": {"number": int(number), **records[int(number) - 1]}}


def _find(run: RunFolder, record_id: str) -> tuple[int, Anchor]:
    """The row of an item in anchors.h5, and its anchor, by its id, the id of a record, or a unique prefix of an id.

    Raises InputError when nothing was sampled, or with the nearest ids when no item fits.
    """
    if not run.anchors.exists():
        raise InputError(f"{run.path}: nothing was sampled yet", f"first: kgqa sample {shell_word(run.path)}")
    item, _, number = record_id.rpartition(".")
    with AnchorsFile(run.anchors) as anchors:
        row = anchors.find(record_id)
        if row is None and number.isdecimal():
            row = anchors.find(item)
        if row is None:
            ids = [anchor["id"] for anchor in anchors.rows()]
            rows = [row for row, item_id in enumerate(ids) if record_id and item_id.startswith(record_id)]
            if len(rows) > 1:
                examples = ", ".join(ids[row] for row in rows[:3])
                raise InputError(
                    f"{record_id}: {len(rows):,} items begin so: {examples}, …", "give more of the id"
                )
            if not rows:
                common = {item_id: len(commonprefix([item_id, record_id])) for item_id in ids}  # noqa: RUF071
                near = sorted(ids, key=lambda item_id: (-common[item_id], item_id))[:3]
                raise InputError(
                    f"{record_id}: no such item among the {len(ids):,} of {run.path}",
                    f"the nearest are {', '.join(near)}",
                )
            row = rows[0]
        return row, Anchor.from_dict(next(iter(anchors.rows(row, row + 1))))


def _locate(
    run: RunFolder, config: RunConfig, row: int, item: str
) -> tuple[str, str, Path | None, dict[str, Any] | None]:
    """The state of an item (finished, in flight, waiting), its shard, its most advanced record and the record's file.

    The passes are searched from the last to the first.
    """
    if not run.shards_manifest.exists():
        return "waiting", "not cut yet", None, None
    manifest = read_shards_manifest(run)
    shard = manifest.holder(row)
    for position in reversed(range(len(config.passes))):
        stored = stored_records(run, config.passes[position].name, manifest.entry(shard))
        records = [(path, record) for path, record in stored if record["id"] == item]
        if records:
            path, record = max(records, key=lambda pair: (pair[1]["status"] != "open", len(pair[1]["trace"])))
            ended = has_ended(record, config.passes[position + 1 :])
            return "finished" if ended else "in flight", shard, path, record
    return "waiting", shard, None, None


def _outcome(run: RunFolder, config: RunConfig, record: dict[str, Any]) -> tuple[str, str | None]:
    """Status and reason in the dataset: by the present decision rule and the filters of the last merge."""
    import pyarrow.dataset as pads  # imported here, because it imports pandas

    status, reason = record["status"], record["reason"]
    if status == "open":
        return status, reason
    if record["decided"]:
        reason = decision_of(config).reason(record["verdicts"])
        status = "accepted" if reason is None else "rejected"
    paths = [str(path) for path in run.dataset.glob("rejected-*.parquet")]
    same = pads.field("id") == record["id"]
    reasons = pads.dataset(paths).to_table(["reason"], filter=same)["reason"].to_pylist() if paths else []
    if reasons and reasons[0] in (REASONS if status == "accepted" else (LENGTH,)):
        return "rejected", reasons[0]
    return status, reason


def _steps(config: RunConfig, passes: Sequence[PassConfig], prompts: Path | None) -> dict[str, Step | str]:
    """The steps of the item's passes by label; a message instead of a step whose prompt cannot be loaded any more."""
    steps: dict[str, Step | str] = {}
    for settings in passes:
        try:
            steps |= {step.label: step for step in build_chain(config, settings.name, prompts=prompts)}
        except PromptError as problem:
            steps |= dict.fromkeys([step.label for step in settings.steps], problem.message)
    return steps


def _given(passes: Sequence[PassConfig], record: dict[str, Any]) -> list[dict[str, Any]]:
    """The item's steps in order: label, entry, number of requests, and the values of the step's columns."""
    values = {**record["features"], **record["output"], **record["annotations"]}
    asked = [entry["step"] for entry in record["trace"]]
    return [
        {
            "step": step.label,
            "use": step.use,
            "requests": asked.count(step.label),
            "columns": {
                column.name: values[column.name]
                for column in STEPS.get(step.use).columns_for(step)
                if column.name in values
            },
        }
        for pass_config in passes
        for step in pass_config.steps
    ]


def _requests(
    anchor: Anchor, record: dict[str, Any], steps: dict[str, Step | str], config: RunConfig
) -> list[dict[str, Any]]:
    """The trace with the messages of each request, or a note why they cannot be shown."""
    item = begin(kind_of(config), anchor)
    chain = [step for step in steps.values() if isinstance(step, Step)]
    of = {step.label: step.of(item) for step in chain}
    notes: list[str | None] = []
    for entry in record["trace"]:
        step = steps.get(entry["step"], "the configuration has no such step any more")
        note = step if isinstance(step, str) else None
        if note is None:
            sha256 = of[entry["step"]].prompt_at(entry.get("turn", 0)).sha256
            if sha256 != entry["prompt"]["sha256"]:
                note = f"prompt {entry['prompt']['name']} has changed since: it is {sha256} now"
        notes.append(note)
    # Prompts after a removed or changed step cannot be rendered from the recorded answers any more.
    intact = next((number for number, note in enumerate(notes) if note), len(notes))
    whole = record["trace"][:intact]
    sent = retrace(chain, item, whole, record["output"]) if whole else []
    final = Item.from_record(anchor, record)
    requests = []
    for number, (entry, note) in enumerate(zip(record["trace"], notes, strict=True)):
        messages = None
        if number < len(sent):
            messages = list(sent[number].messages)
        elif note is None:
            messages = list(of[entry["step"]].request(final, entry["attempt"]).messages)
        requests.append({**entry, "messages": messages, "note": note})
    return requests


def render(history: dict[str, Any]) -> str:
    """The history as text (history.txt.j2), without control characters from the texts of the item."""
    jinja = templates("kgqa_hpc.dataset")
    jinja.filters |= {"rule": _rule, "block": _block, "short": _short, "table": _table}
    jinja.filters |= {"line": lambda value: plain_line(str(value)), "json": partial(_json, indent=1)}
    fields = history["output"] | history.get("record", {})
    text = plain(jinja.get_template("history.txt.j2").render(**history, fields=fields))
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _rule(title: str) -> str:
    return (f" {plain_line(title)} " if title else "").center(WIDTH, "─")


def _block(value: object) -> str:
    """A text, or another value as JSON, in lines of at most WIDTH characters, indented."""
    lines = (value if isinstance(value, str) else _json(value)).split("\n")
    return "\n".join(f"  {part}" for line in lines for part in wrap(line, WIDTH - 4) or [""])


def _short(value: object) -> str:
    text = plain_line(value if isinstance(value, str) else _json(value))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _table(nodes: list[list[str]]) -> str:
    """Nodes as lines with aligned columns, numbered from 0."""
    rows = [("#", "id", "name", "type"), *((str(number), *node) for number, node in enumerate(nodes))]
    columns = [[plain_line(str(cell)) for cell in column] for column in zip(*rows, strict=True)]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns]
    return "\n".join(map("  ".join, zip(*padded, strict=True)))


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, indent=indent)
