"""Texts for a terminal: the records of a dataset (`kgqa show`) and the history of an item (`kgqa explain`)."""

import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kgqa_hpc.columns import COMMON_NAMES
from kgqa_hpc.dataset.files import (
    EVERY,
    CombinedFolder,
    Where,
    open_folder,
    open_source,
    read_accounting,
    read_records,
)
from kgqa_hpc.errors import InputError
from kgqa_hpc.text.plain_text import plain, plain_line

_OMITTED = COMMON_NAMES | {"status", "attempts"}  # members shown elsewhere, or the same for the whole run
WIDTH = 110
SHOWN = 300  # characters of a value
Which = Literal["accepted", "rejected", "lost"]


def show(
    folder: Path,
    which: Which = "accepted",
    group: str | None = None,
    number: int = 20,
    where: Where = EVERY,
) -> list[dict[str, Any]]:
    """The first `number` records of a file of the dataset, of `group` if given, that match `where`.

    `folder` is a run or a combined dataset. Raises InputError when there is no dataset, no item of `group` was sampled,
    or a column of `where` is missing.
    """
    source = open_source(open_folder(folder))
    combined = isinstance(source.run, CombinedFolder)
    if combined and which == "lost":
        raise InputError(f"{folder}: a combined dataset has no lost items", "show those of its runs")
    holds = where.selector(source.run.dataset, which)
    if group is not None:
        if combined:
            names = ("accepted", "rejected")
            groups = sorted({record["group"] for name in names for record in read_records(folder, name)})
        else:
            groups = list(read_accounting(source.run).get("groups", {}))
        word = "dataset" if combined else "run"
        if group not in groups:
            raise InputError(f"no group {group!r} in this {word}", f"its groups: {', '.join(groups)}")
    records = read_records(source.run.dataset, which)
    of_group = (record for record in records if group is None or record.get("group") == group)
    return list(islice(filter(holds, of_group), number))


def render(records: list[dict[str, Any]]) -> str:
    """The text of records: id, group and outcome; question, answer, evidence, verdicts."""
    return "\n\n".join("\n".join(_lines(record)) for record in records)


def why_none(folder: Path, which: Which) -> str:
    """A sentence for an empty list: the number of records in the other files, and the command that shows them."""
    dataset = open_folder(folder).dataset
    numbers = {
        name: sum(1 for _ in read_records(dataset, name))
        for name in ("accepted", "rejected", "lost")
        if (dataset / f"{name}.jsonl").is_file()
    }
    files = [
        f"{n:,} {name}: kgqa show {folder} --{name}" for name, n in numbers.items() if n and name != which
    ]
    return "\n".join([f"none {which}", *files])


def _lines(record: dict[str, Any]) -> Iterator[str]:
    fate = record.get("status") or ("accepted" if record.get("accepted") else "rejected")
    reason = f": {record['reason']}" if record.get("reason") else ""
    yield plain_line(f"{record['id']}  {record.get('group', '')}  {fate}{reason}")
    for name in ("question", "answer"):
        if name in record:
            yield f"  {name:<9} {plain_line(record[name])}"
    for triple in record.get("triples") or ():
        yield f"  evidence  {plain_line(' — '.join(map(str, triple)))}"
    for label, verdict in (record.get("verdicts") or {}).items():
        yield f"  {plain_line(label):<9} {value_text(verdict) or 'said nothing'}"
    fields = {name: value for name, value in record.items() if name not in _OMITTED}
    for name, value in {**fields, **(record.get("features") or {})}.items():
        if isinstance(value, str | int | float):
            yield f"  {plain_line(name):<9} {value_text(value)}"


def value_text(value: Any) -> str:
    """A value of a record on one line: mappings as `name: value, …`, booleans as yes and no, long texts cut."""
    if isinstance(value, dict):
        return ", ".join(f"{plain_line(name)}: {value_text(part)}" for name, part in value.items())
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else plain_line(str(value))
    return text if len(text) <= 120 else f"{text[:119]}…"


def _text(text: str, style: str = "") -> Text:
    """A rich Text of foreign text, without control characters."""
    return Text(plain(text), style)


def render_history(history: dict[str, Any], *, colour: bool = False, width: int = WIDTH) -> str:
    """The history as text, with terminal colours if `colour`. Texts of the item are never interpreted as markup."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, markup=False, highlight=False, emoji=False
    )
    reason = f": {history['reason']}" if history["reason"] else ""
    console.print(_text(history["id"], "bold"), _text(f"{history['state']}, {history['status']}{reason}"))
    location = history["where"]
    record = f", record in {location['record']}" if location["record"] else ""
    console.print(_text(f"{location['run']}: {location['anchor']}, {location['shard']}{record}", "dim"))
    _anchor(console, history["anchor"])
    for request in history["requests"]:
        _request(console, request)
    _steps(console, history)
    _result(console, history)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _anchor(console: Console, anchor: dict[str, Any]) -> None:
    console.print(
        Rule(plain_line(f"anchor: {anchor['kind']}, {anchor['group']}, weight {anchor['weight']:g}"))
    )
    nodes = Table(box=None, pad_edge=False)
    for title in ("#", "id", "name", "type"):
        nodes.add_column(title, overflow="fold")
    for position, node in enumerate(anchor["nodes"]):
        nodes.add_row(*(_text(str(cell)) for cell in (position, *node)))
    console.print(nodes)
    for source, target, kind in anchor["relations"]:
        console.print(_text(f"{source} --{kind}--> {target}"))
    for name, value in anchor["data"].items():
        console.print(_text(f"{name}: {_short(value)}"))


def _request(console: Console, request: dict[str, Any]) -> None:
    prompt, engine = request["prompt"], request["engine"]
    turn = f", turn {request['turn'] + 1}" if request.get("turn") else ""
    console.print(Rule(plain_line(f"{request['step']}{turn}, attempt {request['attempt'] + 1}")))
    console.print(_text(f"prompt  {prompt['name']} {prompt['sha256'][:16]}"))
    observed = [f"{name} {engine[name]}" for name in ("server", "structured", "omitted") if engine.get(name)]
    identity = " ".join(
        str(part) for name, part in engine.items() if part and f"{name} {part}" not in observed
    )
    console.print(_text("engine  " + ", ".join([identity, *observed])))
    settings = [f"{key} {request[key]}" for key in ("temperature", "max_tokens", "seed") if key in request]
    tokens = [f"{number} {kind}" for kind, number in request["tokens"].items()]
    repaired = " (repaired)" if request["repaired"] else ""
    console.print(_text(f"asked   {', '.join(settings)}; tokens: {', '.join(tokens)}"))
    if request["note"]:
        console.print(_text(f"the messages cannot be shown: {request['note']}", "yellow"))
    for message in request["messages"] or ():
        _block(console, message["role"], message["content"])
    if request.get("thought"):
        _block(console, "thought", request["thought"])
    ending = f"{request['finish']}{repaired}" + (f", {request['error']}" if request["error"] else "")
    _block(console, f"answer ({ending})", request["text"])


def _steps(console: Console, history: dict[str, Any]) -> None:
    """Print every step in order with the columns it added; the features last."""
    console.print(Rule("steps"))
    for step in history["steps"]:
        use = "" if step["use"] == step["step"] else f" ({step['use']})"
        asked = f"{step['requests']} requests" if step["requests"] else "asked nobody"
        values = "".join(f"; {name} {_short(value)}" for name, value in step["columns"].items())
        console.print(_text(f"{step['step']}{use}: {asked}{values}"))
    if history["features"]:
        console.print(_text("features: " + _short(history["features"])))


def _short(value: Any) -> str:
    text = plain_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _result(console: Console, history: dict[str, Any]) -> None:
    for field, text in (history["output"] | history.get("record", {})).items():
        console.print(Rule(plain_line(field)))
        console.print(Padding(_text(str(text)), (0, 2)))
    for step, verdict in history["verdicts"].items():
        console.print(Rule(plain_line(f"verdict of {step}")))
        console.print(Padding(_text(json.dumps(verdict, indent=1, ensure_ascii=False)), (0, 2)))
    versions = ", ".join(f"{name} {version}" for name, version in history["versions"].items())
    console.print(Rule(), _text(versions, "dim"))


def _block(console: Console, title: str, text: str) -> None:
    console.print(_text(f"[{title}]", "cyan"))
    console.print(Padding(_text(text), (0, 2)))
