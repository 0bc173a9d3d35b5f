"""The files of a dataset beside its records: accounting, table by group, prompts, card, Croissant, checksums.

croissant.json is a machine-readable description of the dataset (MLCommons Croissant 1.1, JSON-LD).
"""

import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from kgqa_hpc.columns import Column, Type
from kgqa_hpc.dataset.accounting import Accounting
from kgqa_hpc.dataset.card import DataFile, data_files, group_table, licence_fields, render_card, table_name
from kgqa_hpc.dataset.columns import Columns
from kgqa_hpc.dataset.facts import Facts
from kgqa_hpc.store.canonical import pretty, sha256_of
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sums import write_sums
from kgqa_hpc.threads import usable_cores

_FORMATS = {
    ".parquet": "application/x-parquet",
    ".jsonl": "application/jsonlines",
    ".json": "application/json",
    ".csv": "text/csv",
    ".md": "text/markdown",
}


def write_documents(
    folder: Path,
    run: RunFolder,
    facts: Facts,
    accounting: Accounting,
    columns: Columns,
    parts: tuple[str, ...],
) -> None:
    """Write all files beside the records into the dataset's `folder`; `parts` are the parts of the split."""
    (folder / "accounting.json").write_bytes(pretty(accounting.to_dict()))
    (folder / table_name(facts)).write_text(group_table(facts, accounting), encoding="utf-8")
    for path in sorted(run.prompts.rglob("*")):  # copies of the prompts, for readers of the records
        if path.is_file() and not path.is_symlink():
            copy = folder / "prompts" / path.relative_to(run.prompts)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = [path.relative_to(folder).as_posix() for path in paths]
    with ThreadPoolExecutor(usable_cores()) as pool:
        sums = dict(zip(names, pool.map(sha256_of, paths), strict=True))
    all_columns = columns.all(split=bool(parts))
    files = data_files(folder, parts)
    (folder / "croissant.json").write_bytes(pretty(croissant(folder, facts, all_columns, files, sums)))
    with (folder / "accepted.jsonl").open("rb") as records:
        line = records.readline()
    sample = orjson.loads(line) if line else None
    card = render_card(facts, accounting, all_columns, files, sums, sample)
    (folder / "README.md").write_text(card, encoding="utf-8")
    write_sums(folder, sums)


_TYPES = {"string": "sc:Text", "int64": "cr:Int64", "double": "cr:Float64", "bool": "sc:Boolean"}
_UNDATED = "2025-01-01"  # for runs whose manifest has no date

# The context that Croissant 1.1 prescribes (https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html).
_CONTEXT = orjson.loads(Path(__file__).with_name("croissant_context.json").read_bytes())


def croissant(
    folder: Path, facts: Facts, columns: Sequence[Column], files: Sequence[DataFile], sums: dict[str, str]
) -> dict[str, Any]:
    """The JSON-LD document for the files in `folder`; `sums` maps their names to sha256."""
    licence = licence_fields(facts.licence, facts.licence_url)
    protocol = "Judged by language models; verdicts are kept with each record."
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": f"kgqa-{facts.run[:16]}",
        "description": facts.description
        or f"{facts.title}: pairs grounded in anchors of kind {facts.kind}, {facts.making}.",
        "license": licence.get("license_link") or facts.licence,
        "version": "1.0.0",
        "datePublished": facts.date or _UNDATED,
        "citeAs": facts.citation
        or f"{facts.title}. Made with kgqa_hpc {facts.version}, run {facts.run[:16]}.",
        **({"inLanguage": list(facts.languages)} if facts.languages else {}),
        "creator": [{"@type": "sc:Person", "name": name} for name in facts.authors]
        or {"@type": "sc:Organization", "name": "made with kgqa_hpc"},
        "rai:dataCollection": f"Anchors sampled from {facts.evidence}; pairs {facts.making}.",
        **({"rai:dataAnnotationProtocol": protocol} if facts.judged else {}),
        "rai:dataLimitations": "Machine-generated; no human checked it.",
        "distribution": list(_distribution(folder, files, sums)),
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": name,
                "name": name,
                "description": f"The {name} pairs.",
                "key": {"@id": f"{name}/id"},
                "field": [
                    _field(name, (column.name,), column.type, column.description) for column in columns
                ],
            }
            for name in dict.fromkeys(file.config for file in files)
        ],
    }


def _distribution(folder: Path, files: Sequence[DataFile], sums: dict[str, str]) -> Iterator[dict[str, Any]]:
    for name in sorted(sums):
        path = folder / name
        if path.suffix in _FORMATS:
            yield {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "contentSize": f"{path.stat().st_size} B",
                "encodingFormat": _FORMATS[path.suffix],
                "sha256": sums[name],
            }
    for config in dict.fromkeys(file.config for file in files):
        yield {
            "@type": "cr:FileSet",
            "@id": f"{config}-parquet",
            "name": f"{config}-parquet",
            "encodingFormat": _FORMATS[".parquet"],
            "includes": f"{config}-*.parquet",
        }


def _field(config: str, path: tuple[str, ...], kind: Type, description: str) -> dict[str, Any]:
    """A field of Croissant. Its source is the outermost column of `path`, then the path inside the column's
    values.
    """
    id = "/".join((config, *path))
    field: dict[str, Any] = {"@type": "cr:Field", "@id": id, "name": id, "description": description}
    dimensions = 0
    while isinstance(kind, list):
        dimensions, kind = dimensions + 1, kind[0]
    if dimensions:
        field |= {"isArray": True, "arrayShape": ",".join(["-1"] * dimensions)}
    if isinstance(kind, dict):
        field["subField"] = [
            _field(config, (*path, name), part, f"{name} of {path[-1]}.") for name, part in kind.items()
        ]
    else:
        field["dataType"] = _TYPES[kind]
    source: dict[str, Any] = {"fileSet": {"@id": f"{config}-parquet"}, "extract": {"column": path[0]}}
    if len(path) > 1:
        source["transform"] = {"jsonPath": "$." + ".".join(path[1:])}
    return {**field, "source": source}
