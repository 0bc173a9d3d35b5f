"""The dataset card (README.md, with the front matter of the Hugging Face Hub) and the table of counts by group.

All numbers come from the run and its accounting. The template of the card is card.md.j2. For graphlets the table is
Table 1 of BioGraphletQA (Appendix F).
"""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from kgqa_hpc.columns import Column, Type
from kgqa_hpc.dataset.accounting import Accounting, OutcomeCounts, in_order
from kgqa_hpc.dataset.facts import KNOWLEDGE_GRAPH, Facts, one_line

# Licence identifiers of the Hub that knowledge graphs use.
HUB_LICENCES = {"apache-2.0", "mit", "unlicense", "cc0-1.0", "odbl", "odc-by", "pddl", "unknown", "gpl-3.0"}
HUB_LICENCES |= {f"cc-by{kind}-{v}" for kind in ("", "-sa", "-nc", "-nd", "-nc-sa") for v in ("3.0", "4.0")}
_SIZES = {10**3: "n<1K", 10**4: "1K<n<10K", 10**5: "10K<n<100K", 10**6: "100K<n<1M", 10**7: "1M<n<10M"}
SHOWN = 300  # largest number of characters of a text in the sample record


class DataFile(NamedTuple):
    """The Parquet parts of one split of one configuration.

    `rows`, `memory` and `disk`: number of records, bytes of the columns before compression, and bytes of the files.
    """

    config: str
    split: str
    names: tuple[str, ...]
    rows: int
    memory: int
    disk: int


def data_files(folder: Path, parts: tuple[str, ...] = ()) -> list[DataFile]:
    """The Parquet parts by configuration and split."""
    import pyarrow.parquet as pq

    stems = [("accepted", part, f"accepted-{part}") for part in parts] or [("accepted", "train", "accepted")]
    files = []
    for config, split, stem in [*stems, ("rejected", "train", "rejected")]:
        paths = sorted(folder.glob(f"{stem}-?????-of-*.parquet"))
        read = [pq.read_metadata(path) for path in paths]
        memory = sum(file.row_group(i).total_byte_size for file in read for i in range(file.num_row_groups))
        rows, disk = sum(file.num_rows for file in read), sum(path.stat().st_size for path in paths)
        files.append(DataFile(config, split, tuple(path.name for path in paths), rows, memory, disk))
    return files


def render_card(
    facts: Facts,
    accounting: Accounting,
    columns: Sequence[Column],
    files: Sequence[DataFile],
    sums: dict[str, str],
    sample: dict[str, Any] | None,
) -> str:
    """Text of README.md of a dataset folder; `sums` maps file names to sha256, `sample` is an accepted record."""
    # Indented JSON, escaped so that no text ends the Markdown fence.
    example = sample and json.dumps(_cut(sample), indent=1, ensure_ascii=False).replace("```", "`\\u0060`")
    template = templates("kgqa_hpc.dataset").get_template("card.md.j2")
    text = template.render(
        front_matter=_front_matter(facts, accounting, files, sums),
        facts=facts,
        accounting=accounting,
        columns=[(column.name, type_text(column.type), column.description) for column in columns],
        sample=example,
        table=table_name(facts),
        sums=sums,
        prompts=any(name.startswith("prompts/") for name in sums),
    )
    return text.lstrip("\n")


@cache
def templates(package: str) -> Environment:
    """The templates in the folder of a package, for texts that are not HTML; `cell` escapes foreign text."""
    jinja = Environment(
        loader=PackageLoader(package, ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    jinja.filters |= {"cell": cell, "line": one_line, "repr": repr}
    return jinja


def licence_fields(licence: str, url: str | None = None) -> dict[str, str]:
    """The licence in the front matter: an identifier of the Hub, or `other` with name and link."""
    identifier = licence.strip().lower().replace(" ", "-")
    if identifier in HUB_LICENCES:
        return {"license": identifier}
    match = re.search(r"https?://[^\s()<>\"]+", licence)
    link = url or (match[0] if match else None)
    name = licence.replace(match[0], "") if match else licence
    slug = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "unnamed"
    return {"license": "other", "license_name": slug[:80], **({"license_link": link} if link else {})}


def type_text(kind: Type) -> str:
    """A column type in words: `list of {id: string, name: string}`."""
    if isinstance(kind, list):
        return f"list of {type_text(kind[0])}"
    if isinstance(kind, dict):
        return "{" + ", ".join(f"{name}: {type_text(inner)}" for name, inner in kind.items()) + "}"
    return {"int64": "integer", "double": "number", "bool": "true or false"}.get(str(kind), str(kind))


def _front_matter(
    facts: Facts, accounting: Accounting, files: Sequence[DataFile], sums: dict[str, str]
) -> str:
    accepted = accounting.record_total.accepted
    fields = {
        "pretty_name": one_line(facts.title),
        **licence_fields(facts.licence, facts.licence_url),
        **({"language": list(facts.languages)} if facts.languages else {}),
        "task_categories": ["question-answering", "text-generation"],
        "size_categories": [next((name for limit, name in _SIZES.items() if accepted < limit), "n>10M")],
        "annotations_creators": ["machine-generated"],
        "language_creators": ["machine-generated"],
        "tags": [
            *(["knowledge-graph"] if facts.evidence == KNOWLEDGE_GRAPH else []),
            facts.kind,
            "synthetic",
            "croissant",
        ],
        **configurations(files, sums),
    }
    return yaml_text(fields)


def yaml_text(fields: dict[str, Any]) -> str:
    """The front matter as YAML."""
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=100)


def configurations(files: Sequence[DataFile], sums: dict[str, str]) -> dict[str, Any]:
    """Front matter that assigns files to configurations and splits; `sums` maps file names to sha256.

    The description of a configuration holds a fingerprint, so that readers which cache by configuration notice changes.
    """
    front: dict[str, Any] = {"configs": [], "dataset_info": []}
    for config, group in groupby(files, attrgetter("config")):
        every = list(group)
        default = {"default": True} if config == "accepted" else {}
        # Readers of the Hub refuse an empty file in a list of files, and a configuration of empty files alone.
        listed = [file for file in every if file.rows] or (every if default else [])
        if not listed:
            continue
        digests = (_fingerprint(sums[name] for name in file.names) for file in listed)
        paths = [{"split": file.split, "path": list(file.names)} for file in listed]
        splits = [
            {"name": file.split, "num_bytes": file.memory, "num_examples": file.rows} for file in listed
        ]
        sizes = {
            "download_size": sum(file.disk for file in listed),
            "dataset_size": sum(file.memory for file in listed),
        }
        fingerprint = {"description": f"fingerprint {_fingerprint(digests)}", "data_files": paths}
        front["configs"].append({"config_name": config, **default, **fingerprint})
        front["dataset_info"].append({"config_name": config, "splits": splits, **sizes})
    return front


def _fingerprint(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()[:32]


def _cut(value: Any) -> Any:
    """The value with long texts and lists cut."""
    if isinstance(value, dict):
        return {name: _cut(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:12]]
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]}…"
    return value


def cell(value: object) -> str:
    """Text escaped for a cell of a Markdown table."""
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return one_line(text).replace("|", "\\|")


def table_name(facts: Facts) -> str:
    """File name of the table by group, such as graphlets.csv."""
    return f"{facts.kind.removesuffix('s')}s.csv"


def group_rows(facts: Facts, groups: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row per group of the kind's summary and per sampled group; `groups` are those of accounting.json.

    Keys of a row: group, name (or None), the other keys of the summary, total (or None), and `counts`.
    """
    listed = {row["group"] for row in facts.summary}
    unlisted = [{"group": name} for name, _ in in_order(groups) if name not in listed]
    absent = OutcomeCounts().to_dict()
    return [
        {"name": None, "total": None, **row, "counts": groups.get(row["group"], absent)}
        for row in [*facts.summary, *unlisted]
    ]


def group_table(facts: Facts, accounting: Accounting) -> str:
    """The CSV text, one row per group; a group without an id is listed by its name."""
    key = "id" if facts.summary else "group"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([key, "total", "ratio", "count", "generated", "accepted", "acceptance_ratio"])
    document = accounting.to_dict()
    records = document.get("records", document)["groups"]
    for row in group_rows(facts, document["groups"]):
        sampled, generated, total = row["counts"]["sampled"], row["counts"]["generated"], row["total"]
        if total is None and not sampled:
            continue
        accepted = generated and records.get(row["group"], row["counts"])["accepted"]
        ratio, acceptance = sampled / total if total else "", accepted / generated if generated else ""
        name, total = row.get(key, row["group"]), "" if total is None else total
        writer.writerow([name, total, ratio, sampled, generated, accepted, acceptance])
    return out.getvalue()
