"""Sampling of a run's anchors, and extension of the sample without losing an answer.

A larger sample contains the smaller one: existing answers stay valid, and new anchors go into new shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgqa_hpc.anchors import KINDS
from kgqa_hpc.anchors.anchor import Anchor, Drawn, Source, Tools
from kgqa_hpc.anchors.family import gathered
from kgqa_hpc.config import GraphConfig, RunConfig
from kgqa_hpc.config.variants import share_anchors
from kgqa_hpc.errors import ExtensionError, InputError
from kgqa_hpc.runs import fingerprint, kept_prompts, open_for_work, open_run
from kgqa_hpc.runs.chain import kind_of
from kgqa_hpc.runs.open import alone
from kgqa_hpc.runs.trust import require_agreed
from kgqa_hpc.steps import STEPS
from kgqa_hpc.steps.variants import with_variants
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.store.fingerprint import anchors_origin
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.terminal import SHORT, note, stage_progress

if TYPE_CHECKING:
    from kgqa_hpc.kg.graph import KnowledgeGraph
    from kgqa_hpc.kg.reduce import Reduction


@dataclass(frozen=True)
class Sampled:
    """Result of sampling: path of anchors.h5, number of anchors, and notes on the reduction and the draw."""

    path: Path
    anchors: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([*self.notes, f"{self.path}: {self.anchors:,} anchors"])


def sample_into(run: RunFolder, config: RunConfig, threads: int | None = None) -> Sampled:
    """Draw the anchors of a run; write anchors.h5 and the kind's statistics files."""
    from kgqa_hpc.store.shards import write_anchors

    drawn, header = _draw(run, config, threads)
    _write_statistics(run, drawn)
    header |= anchors_origin(run.manifest().sections)
    with KINDS.calling(config.anchors.kind):
        total = write_anchors(run.anchors, (anchor.to_dict() for anchor in drawn.anchors), header)
    return Sampled(run.anchors, total, drawn.notes)


def _write_statistics(run: RunFolder, drawn: Drawn) -> None:
    make_folder(run.stats)
    for name, content in drawn.files.items():
        write_file(run.stats / name, content)


def _draw(run: RunFolder, config: RunConfig, threads: int | None) -> tuple[Drawn, dict[str, Any]]:
    """The drawn anchors, with notes also on the reduction and unfit steps, and the header of anchors.h5."""
    source, notes, files = Source(), list[str](), dict[str, bytes]()
    header = {"seed": config.seed, "kind": config.anchors.kind}
    if config.graph is not None:
        source, reduction, files = _graph_source(run, config.graph, whole=kind_of(config).whole_graph)
        notes = [str(reduction)]
        header["reduction"] = source.reduction
    with stage_progress() as progress:
        # Tell the user about the work ahead if it will take long.
        announce = lambda text, seconds: note(text) if seconds > SHORT else None  # noqa: E731
        drawn = _anchors(config, source, Tools(threads, progress, announce))
    header["totals"] = dict(drawn.totals)
    graph = source.graph if source.answers is None else source.answers.graph
    anchors = drawn.anchors if graph is None else _with_synonyms(drawn.anchors, graph)
    names = (*(graph.edge_types if graph else ()), *getattr(config.anchors, "attributes", ()))
    relations: dict[str, set[str]] = {name: set() for name in names}
    if graph and any(getattr(step, "template", None) for step in config.steps):
        relations |= graph.facts_of_edge_types()
    unfit = [line for step in config.steps for line in STEPS.get(step.use).notes_on(step, relations)]
    return Drawn(anchors, drawn.totals, {**files, **drawn.files}, (*notes, *drawn.notes, *unfit)), header


def _graph_source(
    run: RunFolder, config: GraphConfig, *, whole: bool
) -> tuple[Source, Reduction, dict[str, bytes]]:
    """The graphs to draw from, the reduction, and the file with the profiles of both graphs.

    The memory of the imported graph is freed on return, unless the `whole` graph is needed for answers.
    """
    from kgqa_hpc.kg.describe import FILE, Profiles, dump_profiles, profile
    from kgqa_hpc.kg.file import read_graph
    from kgqa_hpc.kg.reduce import AnswerGraph, reduce_to

    graph = read_graph(run.kg)
    reduction = reduce_to(graph, config)
    answers = AnswerGraph.of(graph, reduction) if whole else None
    profiles = dump_profiles(Profiles(profile(graph), profile(reduction.graph)))
    return Source(reduction.graph, reduction.counts, answers), reduction, {FILE: profiles}


def _with_synonyms(anchors: Iterable[Anchor], graph: KnowledgeGraph) -> Iterable[Anchor]:
    """Anchors whose data have `synonyms`: other names of their nodes, by name, for the step `check`.

    The id of an anchor depends on what its kind drew, not on the synonyms.
    """
    from kgqa_hpc.kg.graph import SYNONYMS

    if SYNONYMS not in graph.node_properties:
        return anchors
    cells = graph.node_properties[SYNONYMS].cast("large_string").to_pylist()
    by_id = {node: cell.split("|") for node, cell in zip(graph.node_ids.tolist(), cells, strict=True) if cell}

    def named(anchor: Anchor) -> Anchor:
        synonyms = {node.name: by_id[node.id] for node in anchor.nodes if node.id in by_id}
        return replace(anchor, data={**anchor.data, SYNONYMS: synonyms}) if synonyms else anchor

    return map(named, anchors)


def _of_kind(anchors: Iterable[Anchor], kind: str) -> Iterator[Anchor]:
    """The anchors as they are. Raises ExtensionError for an anchor of another kind, or whose group is no text."""
    for anchor in anchors:
        if anchor.kind != kind or not isinstance(anchor.group, str):
            raise ExtensionError(
                f"{KINDS.entry(kind)}: drew anchor {anchor.id} of kind {anchor.kind!r} and group {anchor.group!r}",
                "give each anchor the name of its kind, and a text as group",
            )
        yield anchor


def _anchors(config: RunConfig, source: Source, tools: Tools) -> Drawn:
    """Draw the anchors of a run; of a study, those of each variant, or once for all if the variants share anchors."""

    def draw(variant: RunConfig) -> Drawn:
        with KINDS.calling(variant.anchors.kind):
            drawn = kind_of(variant).draw(source, variant.anchors, variant.seed, tools)
            drawn = drawn if isinstance(drawn, Drawn) else gathered(drawn, variant.anchors, variant.seed)
        return replace(drawn, anchors=_of_kind(drawn.anchors, variant.anchors.kind))

    variants = config.variant_configs()
    if config.variants is None or not variants:
        return draw(config)
    if share_anchors(config.variants):
        drawn = draw(next(iter(variants.values())))
        return replace(drawn, anchors=with_variants(drawn.anchors, list(variants)))
    parts = {name: draw(variant) for name, variant in variants.items()}
    return Drawn(
        (anchor for name, part in parts.items() for anchor in with_variants(part.anchors, [name])),
        {group: total for part in parts.values() for group, total in part.totals.items()},
        {f"{name}-{file}": content for name, part in parts.items() for file, content in part.files.items()},
        tuple(f"{name}: {line}" for name, part in parts.items() for line in part.notes),
    )


def extend(folder: Path, size: int, threads: int | None = None, *, trust: bool = False) -> Sampled:
    """Draw a larger sample that contains the present one; every answer is kept, new anchors go into new shards.

    A call after a kill at any moment continues the growth. The manifest is rewritten, so the run's engines need earlier
    consent, or `trust` (runs/trust.py). Raises InputError if the larger sample would not begin with the old one
    (balanced samples, studies whose variants draw different anchors), or is not larger.
    """
    from kgqa_hpc.store.sealed import read_header
    from kgqa_hpc.store.shards import AnchorsFile, write_anchors

    with alone(RunFolder.open(folder)):
        run, config = open_run(folder)
        require_agreed(run, config.plain(), trust=trust)
        if config.variants is not None and not share_anchors(config.variants):
            raise InputError(
                "this study's variants draw anchors of their own", "make a new run with more of each"
            )
        recorded = run.manifest().sections["sampling"]["values"].get(type(config.anchors).size)
        # True if an earlier growth to this size was killed after it wrote config.yaml and before the manifest.
        half_grown = size_of(config) == size != recorded
        grown = config if half_grown else _larger(open_for_work(folder)[1], size)
        sections = fingerprint(grown, kept_prompts(run))
        before = read_header(run.anchors, "anchors")
        if before.get("made_by") != anchors_origin(sections)["made_by"]:
            drawn, header = _draw(run, grown, threads)
            header["grown"] = [*before.get("grown", ()), [before["rows"], before["sha256"][:16]]]
            with AnchorsFile(run.anchors) as anchors:
                new: Iterator[Any] = (anchor.to_dict() for anchor in drawn.anchors)
                if grown.variants is not None:
                    # The existing items in their order, then the new ones by variant.
                    more = {row["id"]: row for row in new}
                    old = [more.pop(row["id"]) for row in anchors.rows() if row["id"] in more]
                    new = chain(old, more.values())
                rows = _beginning_with(anchors.rows(), new, folder)
                write_anchors(run.anchors, rows, header | anchors_origin(sections))
            _write_statistics(run, drawn)
        run.grow(grown.plain(), sections)
        return Sampled(run.anchors, read_header(run.anchors, "anchors")["rows"])


def _larger(config: RunConfig, size: int) -> RunConfig:
    """The configuration with a larger sample, which will contain the present one.

    Raises InputError for a size that is not larger, or a kind without a size.
    """
    anchors, key = config.plain()["anchors"], type(config.anchors).size
    if key not in anchors:
        raise InputError(f"anchors of kind {config.anchors.kind} have no {key}", "make a new run")
    if anchors[key] is None or size <= anchors[key]:
        raise InputError(f"anchors.{key} is {anchors[key]} already, not below {size}", "ask for more")
    if "grown" in anchors:
        anchors["grown"] = [*(anchors["grown"] or ()), anchors[key]]
    return config.changed("the larger sample", anchors={**anchors, key: size})


def size_of(config: RunConfig) -> int | None:
    """The configured number of anchors; None for a kind without such a number, or if all anchors are taken."""
    size: int | None = getattr(config.anchors, type(config.anchors).size, None)
    return size


def _beginning_with(old: Iterator[Any], new: Iterator[Any], folder: Path) -> Iterator[Any]:
    """The anchors of `new`, checked to begin with those of `old`. Raises InputError at the first difference."""
    for old_anchor in old:
        if next(new, None) != old_anchor:
            raise InputError(
                f"{folder}: a larger sample of this kind does not contain this one", "make a new run for it"
            )
        yield old_anchor
    yield from new
