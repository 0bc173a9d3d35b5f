"""Kind records: records of a finished run, or of a JSON Lines or Parquet file, as the anchors of the next run.

Thus runs can be chained: grounding, rephrasing and auditing are runs over the records of another run. The fields of
the record are the initial fields of an item, so that the first step may be a judge.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from kgqa_hpc.anchors.anchor import Anchor, AnchorKind, Drawn, Node, Relation, Source, Tools, graph_variables
from kgqa_hpc.anchors.family import Distractors, place, shared_names
from kgqa_hpc.anchors.names import named
from kgqa_hpc.columns import Column
from kgqa_hpc.errors import InputError
from kgqa_hpc.settings import KindSettings, later_key
from kgqa_hpc.store.sums import require_whole
from kgqa_hpc.text.plain_text import TEXT_LENGTH, clean_text, shell_word
from kgqa_hpc.text.streams import json_lines, open_bytes

WRONG = 4  # wrong options of a question with options from the graph
# Fields about the origin of a record, which are not copied into new records.
_OWN = ("accepted", "reason", "verdicts", "features", "provenance")
# Fields that become the anchor's id, group, nodes and relations.
_ANCHOR = ("id", "kind", "group", "graphlet_id", "nodes", "edges", "edge_labels", "triples", "num_nodes")


class RecordSettings(KindSettings):
    """Settings of the kind records: source, filter and number."""

    kind: Literal["records"] = "records"
    source: str = Field(alias="from", description="A run folder, or a .jsonl or .parquet file.")
    where: str | dict[str, Any] = Field(
        default_factory=lambda: {"accepted": True},
        description="Filter: an SQL expression over the records of a merged run, or pairs of a field and its "
        "allowed value or values, which must all match.",
    )
    number: int | None = Field(None, ge=1, description="Number of records, drawn by the seed; default: all.")
    stratify: str | None = Field(None, description="Field whose values get equal shares of the records.")
    distractors: Literal["graph"] | None = later_key(
        "Wrong options from the graph of the run `from`, for rephrase_medqa_graph."
    )
    paths = ("from", "source")


class RecordAnchors(AnchorKind):
    """Records of another run or file."""

    name = "records"
    Settings = RecordSettings
    needs_graph = False
    gives = ("question", "answer")
    columns = (Column("source_id", "string", "Id of the record this one was made from."),)
    sample = Anchor(
        id="sample",
        kind="records",
        group="shape 2",
        nodes=(Node("a", "First node", "Gene"), Node("b", "Second node", "Disease")),
        relations=(Relation(0, 1, "causes"),),
        data={"record": {"id": "sample", "question": "A question?", "answer": "An answer."}},
    )

    def draw(self, source: Source, settings: RecordSettings, seed: int, tools: Tools) -> Drawn:
        """Filter, then take `number` records in seeded order, with equal shares of the values of `stratify`.

        Raises InputError for a source that is neither a run nor a readable file, a record without id, or an empty
        result.
        """
        strata: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}
        totals: Counter[str] = Counter()
        for record in filter(_selector(settings), read_records(Path(settings.source))):
            totals[_group(record)] += 1
            stratum = str(record.get(settings.stratify)) if settings.stratify else ""
            fields = {key: value for key, value in record.items() if key not in _OWN}
            strata.setdefault(stratum, []).append((place(seed, record["id"]), fields))
        chosen = _shares(strata, settings.number)
        if not chosen:
            raise InputError(f"{settings.source}: no record fits anchors.where", "widen anchors.where")
        anchors = (_anchor(record) for _, record in sorted(chosen, key=itemgetter(0)))
        if settings.distractors:
            options = _Options(Path(settings.source), seed)
            anchors = (options.added_to(anchor) for anchor in anchors)
        return Drawn(anchors, totals)

    def variables(self, anchor: Anchor) -> dict[str, Any]:
        """The record's texts, each on one line; nodes, edges and relations if the record has them."""
        record = anchor.data["record"]
        texts = {
            key: clean_text(value, TEXT_LENGTH) for key, value in record.items() if isinstance(value, str)
        }
        return {**graph_variables(anchor), "record": record, **texts}

    def start(self, anchor: Anchor) -> dict[str, Any]:
        """The fields of the source's record, with which an item begins; without those that are part of the anchor."""
        return {key: value for key, value in anchor.data["record"].items() if key not in _ANCHOR}

    def record(self, anchor: Anchor, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"source_id": anchor.data["record"]["id"]}

    def files(self, settings: RecordSettings) -> list[Path]:
        """The dataset files of the source, and its graph if options come from it; the fingerprint covers them."""
        source = Path(settings.source)
        return _dataset_files(source) + ([source / "kg.h5"] if settings.distractors else [])


class _Options:
    """Draws four wrong options from the graph of a run, for pairs with exactly one node that only the answer names.

    Wrong options are nodes of the answer's type that share no edge with the answer or with a node of the question.
    """

    def __init__(self, run: Path, seed: int) -> None:
        from kgqa_hpc.kg.file import read_graph

        if not (run / "kg.h5").is_file():
            raise InputError(
                f"anchors.distractors: {run} has no graph (kg.h5)", "name the folder of a run that read one"
            )
        graph = read_graph(run / "kg.h5")
        self._seed, self._names = seed, graph.names
        self._positions = {str(node): position for position, node in enumerate(graph.node_ids)}
        unusable = {"", *shared_names(map(str, graph.names))}  # a node without a name is no option
        self._distractors = Distractors(graph, unusable)

    def added_to(self, anchor: Anchor) -> Anchor:
        """The anchor, with `right` and `wrong` options in its data if the graph has enough."""
        names, record = [node.name for node in anchor.nodes], anchor.data["record"]
        asked = named(str(record["question"]), names)
        answered = [number for number in named(str(record["answer"]), names) if number not in asked]
        at = [self._positions.get(node.id) for node in anchor.nodes]
        subjects = [position for number in asked if (position := at[number]) is not None]
        answer = at[answered[0]] if len(answered) == 1 else None
        if answer is None or not subjects or len(subjects) < len(asked):
            return anchor
        chance = random.Random(f"{self._seed}/{anchor.id}")
        wrong = [str(self._names[node]) for node in self._distractors.draw(subjects, answer, WRONG, chance)]
        if len(wrong) < WRONG:
            return anchor
        return replace(anchor, data={**anchor.data, "right": names[answered[0]], "wrong": wrong})


def read_records(source: Path) -> Iterator[dict[str, Any]]:
    """Records of a run's dataset (accepted and rejected) or of one file, as plain data.

    Raises InputError with file and line if a line is not a record, CorruptFile for a dataset that changed after merge.
    """
    for path in _dataset_files(source):
        if path != source:
            require_whole(path.parent, path.name)
        with open_bytes(path) as file:
            rows: Iterator[tuple[int, Any]] = json_lines(file, path)
            if path.suffix == ".parquet":
                rows = enumerate(_parquet_records(file, path), 1)
            for number, record in rows:
                if not isinstance(record, dict) or not isinstance(record.get("id"), str):
                    raise InputError(
                        f"{path} line {number:,}: is no record with a text id", "mend or remove it"
                    )
                yield record


def _parquet_records(file: IO[bytes], path: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(file).iter_batches(1024):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{path}: not Parquet, or damaged: {problem}", "mend or remove it") from None


def _dataset_files(source: Path) -> list[Path]:
    if source.is_file():
        if source.suffix not in (".jsonl", ".parquet"):
            raise InputError(f"{source}: is neither .jsonl nor .parquet", "convert it first")
        return [source]
    folder = source / "dataset" if (source / "dataset").is_dir() else source
    files = [folder / f"{name}.jsonl" for name in ("accepted", "rejected")]
    if missing := [path for path in files if not path.is_file()]:
        raise InputError(
            f"{missing[0]}: no such file",
            f"anchors.from is a merged run or a file: kgqa merge {shell_word(source)}",
        )
    return files


def _selector(settings: RecordSettings) -> Callable[[Mapping[str, Any]], bool]:
    """A function that tells whether a record fits `where`. Raises InputError for a wrong SQL expression."""
    conditions, source = settings.where, Path(settings.source)
    if isinstance(conditions, dict):
        # A record without the field `accepted` passes its condition: files other than datasets need no filter.
        allowed = {key: value if isinstance(value, list) else [value] for key, value in conditions.items()}
        return lambda record: all(
            record.get(key) in values for key, values in allowed.items() if key != "accepted" or key in record
        )
    if source.is_file():
        raise InputError(
            f"anchors.where: {source} is no run", "an SQL expression needs anchors.from a merged run"
        )
    from kgqa_hpc.database import matching_ids

    dataset = _dataset_files(source)[0].parent
    require_whole(dataset, *(part.name for part in dataset.glob("*.parquet")))
    ids = {name: matching_ids(dataset, name, conditions) for name in ("accepted", "rejected")}
    return lambda record: record["id"] in ids["accepted" if record.get("accepted") else "rejected"]


def _shares(
    strata: Mapping[str, list[tuple[bytes, dict[str, Any]]]], number: int | None
) -> list[tuple[bytes, dict[str, Any]]]:
    """Split `number` into equal shares; larger strata compensate for those that are too small."""
    ordered = [sorted(stratum, key=itemgetter(0)) for _, stratum in sorted(strata.items())]
    if number is None:
        return [entry for stratum in ordered for entry in stratum]
    chosen: list[tuple[bytes, dict[str, Any]]] = []
    for depth, entries in enumerate(zip_longest(*ordered)):
        layer = [entry for entry in entries if entry is not None]
        random.Random(depth).shuffle(layer)  # so the last, incomplete layer favours no stratum by its name
        chosen += layer
        if len(chosen) >= number:
            break
    return chosen[:number]


def _group(record: Mapping[str, Any]) -> str:
    if "group" in record:
        return str(record["group"])
    return f"shape {record['graphlet_id']}" if "graphlet_id" in record else "all"


def _anchor(record: dict[str, Any]) -> Anchor:
    """The anchor of a record without the fields about its origin."""
    nodes = tuple(Node(str(n["id"]), str(n["name"]), str(n["type"])) for n in record.get("nodes") or ())
    edges = list(zip(record.get("edges") or (), record.get("edge_labels") or (), strict=False))
    relations = tuple(Relation(int(a), int(b), str(label)) for (a, b), label in edges)
    return Anchor(record["id"], RecordAnchors.name, _group(record), nodes, relations, 1.0, {"record": record})
