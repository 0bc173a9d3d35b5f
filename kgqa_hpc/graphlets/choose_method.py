"""Choice of the sampling method and its structures, with a forecast of the duration.

The decision rests on the exact totals (or estimates) and on a cost model in steps of the kernels: on the
graph and the requested shapes alone, not on the machine, its load or the number of threads. It is made for
samples of REFERENCE_SIZE of each shape, whatever size is requested, so that samples of all sizes come from
one sequence and a smaller sample is part of a larger one. Rates turn steps into seconds for the message; they
were measured on one core of a 2.5 GHz Xeon with tools/bench_graphlets.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kgqa_hpc.graphlets.count import PASSES
from kgqa_hpc.graphlets.kernels.count_cycles import pentagon_steps
from kgqa_hpc.graphlets.ordered_graph import OrderedGraph, TriangleLists, restrict_to_core
from kgqa_hpc.graphlets.shapes import SHAPES, SUBCOPIES
from kgqa_hpc.graphlets.structures import STRUCTURES, Structure, way_of
from kgqa_hpc.text.plain_text import duration

Method = Literal["auto", "enumerate", "structure"]

# Core-seconds of the enumeration per connected set of three and of four vertices, sampling included.
TRIPLE_RATE = 1e-6
FOUR_RATE = 6e-9
# Core-seconds per slot (entry of a row) to order the graph and list its triangles.
SLOT_RATE = 5e-7
PASS_RATES = {"links": 4e-9, "codegrees": 5e-9, "5-cycles": 3e-9}
# Slowdown of passes with random access to all vertices when these do not fit into a core's cache.
FAR_FACTOR = 3.0
CACHED_VERTICES = 1 << 16
DRAW_RATES = {"rows": 8e-7, "squares": 2.5e-6, "pentagons": 5e-6, "cliques": 4e-6}
# Core-seconds per slot to compute the weights of a structure's roots.
ROW_SETUP_RATE = 2e-8

# Sample size for which the method is chosen; that of the publication.
REFERENCE_SIZE = 10_000
# Number of parts of the roots that are probed in parallel, each with 4 bytes per vertex.
PROBE_PARTS = 4
# Longest pass of the closed forms (core-seconds) that is made for sampling.
EXACT_SECONDS = 30.0
# Core-seconds up to which enumeration is chosen without a comparison with drawing.
SHORT_SECONDS = 20.0
# Limits in core-seconds for drawing one shape: if its total is exact, if its total is estimated.
SHAPE_SECONDS = 120.0
BLIND_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """The chosen sampling method, with a forecast.

    method: enumerate, structure or graph-tool; text: method, reason and duration, for the user; core_seconds:
    prediction for one core.
    """

    method: str
    text: str
    core_seconds: float


Announce = Callable[[Plan], None]


@dataclass(frozen=True)
class Assignment:
    """The stream from which a shape is sampled.

    probability: that a draw hits the shape; draws: expected number of draws; rate: core-seconds per draw.
    """

    shape: int
    structure: int
    probability: float
    draws: float
    rate: float


@dataclass(frozen=True)
class Costs:
    """Predicted core-seconds on one graph.

    `passes`: of each expensive pass of the closed forms (PASSES); `slots`: entries of the graph's rows.
    """

    passes: Mapping[str, float]
    slots: int

    @classmethod
    def of(cls, graph: OrderedGraph, lists: TriangleLists) -> Costs:
        """The prediction for a graph; `lists` are its triangles."""
        core, lists = restrict_to_core(graph, lists)
        degree = core.degree.astype(float)
        # Integer arithmetic gives the same result on every machine; pieces keep the memory small.
        pieces = (piece.astype(np.int64) for piece in np.array_split(lists.per_slot(), 64))
        links = sum(int(piece @ piece) for piece in pieces)
        far = FAR_FACTOR if graph.num_nodes > CACHED_VERTICES else 1.0
        passes = {
            "links": links / 2 * PASS_RATES["links"],
            "codegrees": float((degree * (degree - 1)).sum()) / 2 * PASS_RATES["codegrees"] * far,
            "5-cycles": _pentagon_steps(core) * PASS_RATES["5-cycles"] * far,
        }
        return cls(passes, len(graph.indices))

    @property
    def affordable(self) -> frozenset[str]:
        """The passes that are made for sampling."""
        return frozenset(name for name in PASSES if self.passes[name] <= EXACT_SECONDS)

    def counting(self) -> float:
        """Seconds of the closed forms: their preparation and the affordable passes."""
        return self.slots * SLOT_RATE + sum(self.passes[name] for name in PASSES if name in self.affordable)

    def form(self, structure: int) -> Structure:
        """How copies of a structure are drawn after the affordable passes or, if these do not suffice, all passes."""
        return way_of(structure, self.affordable) or STRUCTURES[structure]

    def stream(self, structure: int, draws: float) -> float:
        """Seconds of a stream of draws: the weights of its roots, a pass if the structure needs it, and the draws."""
        form = self.form(structure)
        setup = self.slots * ROW_SETUP_RATE + (self.passes[form.needs] if form.needs else 0.0)
        return setup + draws * DRAW_RATES[form.family]

    def drawing(self, assignments: Iterable[Assignment]) -> float:
        """Seconds of all draws; shapes that share a stream wait for the longest of them."""
        planned: dict[int, float] = {}
        for a in assignments:
            planned[a.structure] = max(planned.get(a.structure, 0.0), a.draws)
        return sum(self.stream(structure, draws) for structure, draws in planned.items())


def _pentagon_steps(graph: OrderedGraph) -> float:
    """Estimated steps of the 5-cycle pass, interpolated between about 60 roots."""
    n = graph.num_nodes
    if n < 2:
        return 0.0
    probes = np.unique(np.geomspace(1, n, 60).astype(np.int64)) - 1
    steps = np.empty(len(probes))

    def probe(part: int) -> None:
        steps[part::PROBE_PARTS] = pentagon_steps(probes[part::PROBE_PARTS], graph.indptr, graph.indices)

    graph.workers.run(probe, range(PROBE_PARTS))
    return float(((steps[1:] + steps[:-1]) / 2 * np.diff(probes)).sum() + steps[0])


def expected_draws(total: float, size: int, probability: float) -> float:
    """Expected draws until `size` of `total` occurrences are hit; `probability`: that a draw hits one."""
    size = min(size, math.ceil(total))
    if size >= total:
        tries = total * (math.log(max(total, 1.0)) + 0.5772) + 0.5
    else:
        tries = -total * math.log1p(-size / total)
    return max(tries, size) / probability


def assign(
    totals: Mapping[int, float],
    shapes: Collection[int],
    copies: Mapping[int, float],
    costs: Costs,
    size: int = REFERENCE_SIZE,
) -> list[Assignment]:
    """Choose for each of `shapes` the structure whose stream gives its sample, for samples of `size`.

    `totals`: occurrences of each shape. `copies`: for each available structure, the number of copies that a
    draw chooses from. The hardest shapes are assigned first; a stream in use costs only its additional draws.
    """
    options: dict[int, list[Assignment]] = {}
    for shape in shapes:
        inner = [s for s in copies if s in SUBCOPIES[shape] and copies[s] > 0]
        if (total := totals[shape]) > 0 and inner:
            options[shape] = []
            for s in inner:
                probability = min(1.0, total * SUBCOPIES[shape][s] / copies[s])
                draws, rate = expected_draws(total, size, probability), DRAW_RATES[costs.form(s).family]
                options[shape].append(Assignment(shape, s, probability, draws, rate))
    planned: dict[int, float] = {}

    def cost(option: Assignment) -> float:
        already = planned.get(option.structure, 0.0)
        whole = costs.stream(option.structure, max(option.draws, already))
        return whole - (costs.stream(option.structure, already) if already else 0.0)

    alone = {shape: min(map(cost, candidates)) for shape, candidates in options.items()}
    chosen = []
    for shape in sorted(alone, key=lambda shape: (-alone[shape], shape)):
        best = min(options[shape], key=lambda option: (cost(option), option.structure))
        planned[best.structure] = max(planned.get(best.structure, 0.0), best.draws)
        chosen.append(best)
    return sorted(chosen, key=lambda a: a.shape)


def resize(
    assignments: Iterable[Assignment], totals: Mapping[int, float], sizes: Mapping[int, int]
) -> list[Assignment]:
    """Copy of the plan for samples of other `sizes`; shapes of size 0 are left out."""
    return [
        replace(a, draws=expected_draws(totals[a.shape], sizes[a.shape], a.probability))
        for a in assignments
        if sizes[a.shape]
    ]


def enumeration_seconds(totals: Mapping[int, float]) -> float:
    """Predicted core-seconds of counting and sampling by enumeration (see kernels.walk)."""
    triples, fours = (sum(totals[shape] for shape in SHAPES if SHAPES[shape].k == k) for k in (3, 4))
    return triples * TRIPLE_RATE + fours * FOUR_RATE


def draw_limits(assignments: Iterable[Assignment], exact_shapes: Collection[int]) -> dict[int, int]:
    """Largest number of draws for a shape: ten times the expected number, within a time limit.

    `exact_shapes`: the shapes whose totals are exact.
    """
    limits = {}
    for a in assignments:
        seconds = SHAPE_SECONDS if a.shape in exact_shapes else BLIND_SECONDS
        most = seconds / a.rate
        limits[a.shape] = int(min(10 * a.draws + 2e5, most))
    return limits


def explain_enumeration(totals: Mapping[int, int], counted: float) -> Plan:
    """Describe the enumeration and its duration; `counted` are the core-seconds of the closed forms."""
    seconds = counted + enumeration_seconds(totals)
    summary = f"{sum(totals.values()):,} occurrences: all are walked through and sampled by rank"
    return Plan("enumerate", f"{summary}, about {duration(seconds)} on one core", seconds)


def explain_drawing(totals: Mapping[int, float], inexact: int, counted: float, drawn: float) -> Plan:
    """Explain the chosen drawing method in a few lines; the shapes in `inexact` have estimated `totals`."""
    total = sum(totals.values())
    size = f"about {total:.2g} occurrences" if inexact else f"{int(total):,} occurrences"
    why = f"{size} would take {duration(enumeration_seconds(totals))} to enumerate"
    text = (
        f"{why}: samples are drawn from streams of structures, about {duration(drawn)} on one core"
        f" after {duration(counted)} for counting"
    )
    if inexact:
        text += f"; the totals of {inexact} shapes are estimates with standard errors"
    return Plan("structure", text, counted + drawn)
