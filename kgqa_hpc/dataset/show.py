"""`kgqa show`: the records of a dataset as text for a terminal."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from kgqa_hpc.columns import COMMON_NAMES
from kgqa_hpc.dataset.files import (
    CombinedFolder,
    open_folder,
    open_source,
    read_accounting,
    read_records,
    selector,
)
from kgqa_hpc.errors import InputError
from kgqa_hpc.steps.item import choices_of
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.text.plain_text import plain_line, shell_word

# Members not listed: shown elsewhere, or equal in the whole run.
_OMITTED = COMMON_NAMES | {"status", "attempts"}
Which = Literal["accepted", "rejected", "lost"]


def show(
    folder: Path,
    which: Which = "accepted",
    group: str | None = None,
    number: int = 20,
    where: str = "",
) -> list[dict[str, Any]]:
    """The first `number` records of a file of the dataset, of `group` if given, that match `where`.

    `folder` is a run or a combined dataset. Raises InputError when there is no dataset, no item of `group` was sampled,
    or a column of `where` is missing.
    """
    source = open_source(open_folder(folder))
    combined = isinstance(source.run, CombinedFolder)
    if combined and which == "lost":
        raise InputError(f"{folder}: a combined dataset has no lost items", "show those of its runs")
    holds = selector(source.run.dataset, which, where)
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
    """A sentence for an empty list: the number of records in every file, and the commands that show the others."""
    dataset, numbers = open_folder(folder).dataset, dict[str, int]()
    for path in (dataset / f"{name}.jsonl" for name in get_args(Which)):
        if path.is_file():
            with disk_errors(path), path.open("rb") as lines:
                numbers[path.stem] = sum(1 for _ in lines)
    number = numbers.pop(which, 0)
    files = [f"{n:,} {name}: kgqa show {shell_word(folder)} --{name}" for name, n in numbers.items() if n]
    head = f"none of the {number:,} {which} records fits" if number else f"none {which}"
    return "\n".join([head, *files])


def _lines(record: dict[str, Any]) -> Iterator[str]:
    fate = record.get("status") or ("accepted" if record.get("accepted") else "rejected")
    reason = f": {record['reason']}" if record.get("reason") else ""
    yield plain_line(f"{record['id']}  {record.get('group', '')}  {fate}{reason}")
    for name in ("question", "answer"):
        if name in record:
            yield f"  {name:<9} {plain_line(record[name])}"
    if record.keys() & {"answer_letter", "correct_option"}:  # multiple choice
        for letter, option in choices_of(record).items():
            yield f"  {letter:<9} {plain_line(option)}"
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
    if isinstance(value, list):
        return "; ".join(map(value_text, value)) or "none"
    text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else plain_line(str(value))
    return text if len(text) <= 120 else f"{text[:119]}…"
