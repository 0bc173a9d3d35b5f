"""OREGANO's arithmetic on a twin: files of its form, in which every published kind of figure is planted at a hundredth.

The figures are counted here from the planted rows by plain sets, in the order in which the paper drops: codes and
nodes without a name first, then degree 3 to 100 once, on simple undirected edges.
"""

import random
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kgqa_hpc.kg.describe import stats
from kgqa_hpc.kg.reduce import reduce_to
from kgqa_hpc.kg.settings import GraphConfig
from kgqa_hpc.plugins.biokg.hydrate import hydrate
from kgqa_hpc.plugins.biokg.recipe import EntityClass, load_recipe

RECIPE = Path(__file__).parents[4] / "configs" / "hydrate_oregano.yaml"
SEED = 20261122
# How many nodes each class has, by what names them first: the paper's Appendix B, divided by a hundred.
PLANTED = {
    "compound": {"given": 52, "pubchem_compound": 246, "drugbank": 9, "npass": 12, "sider": 2, "pharmgkb": 1},
    "protein": {"uniprotkb": 134, "npass": 12},
    "molecule": {"drugbank": 2},
    "gene": {"ncbigene": 134},
    "disease": {"omim": 57, "snomedct": 7, "mesh": 4, "umls": 8, "orphanet": 12, "pharmgkb": 2, None: 1},
    "phenotype": {"hpo": 69},
    "pathway": {"reactome": 21, None: 1},
    "activity": {"given": 2},
    "effect": {"given": 2},
    "side_effect": {"given": 54},
    "indication": {"given": 21},
}
GIVEN = {"compound": "WIKIPEDIA", "activity": "NAME_DRUGBANK", "effect": "NAME_DRUGBANK"}


def plant(folder: Path) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Write all files; returns the name of each node and the rows of triples."""
    shutil.copy(RECIPE, folder / "recipe.yaml")
    recipe = load_recipe(RECIPE)
    names: dict[str, str] = {}
    tables: dict[str, list[dict[str, str]]] = defaultdict(list)
    spaces: dict[str, dict[str, str]] = defaultdict(dict)
    for kind, counts in PLANTED.items():
        for space, count in counts.items():
            for number in range(count):
                node = f"{kind.upper()}:{space}{number}"
                names[node] = _entity(node, recipe.classes[kind], space, tables, spaces)
    for name, rows in tables.items():
        columns = list(dict.fromkeys(column for row in rows for column in row))
        lines = ["\t".join(columns), *("\t".join(row.get(c, "") for c in columns) for row in rows)]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for name, names_of in spaces.items():
        space, sign = recipe.spaces[name], "," if (recipe.spaces[name].table or "").endswith(".csv") else "\t"
        rows = [f"{key}{sign}{text}" for key, text in names_of.items()]
        lines = [f"{space.id}{sign}{space.name}", *rows, ""]
        if space.obo:
            terms = (f"[Term]\nid: {key}\nname: {text}\n" for key, text in names_of.items())
            lines = ["format-version: 1.2\n", *terms]
        (folder / (space.obo or space.table)).write_text("\n".join(lines), encoding="utf-8")
    triples = _triples(list(names))
    text = "".join("\t".join(row) + "\n" for row in triples)
    (folder / "OREGANO_V2.1.tsv").write_text(text, encoding="utf-8")
    return names, triples


def _entity(node: str, known: EntityClass, space: str | None, tables: dict, spaces: dict) -> str:
    """One row of its class's table: ids that no table has before the space that names it, a worse name behind it."""
    kind = node.partition(":")[0].lower()
    row, name, before = {"ID": node}, "", True
    for way in known.names:
        if way.space == "given":
            if space == "given":
                name, before = f"given {node}", False
                row[GIVEN.get(kind, "NAME")] = name.replace(" ", "_") if kind == "compound" else name
            continue
        identifier = f"{way.space.upper()}x{node.replace(':', 'x')}"
        row[way.column] = f"{identifier};other{identifier}"
        if way.space == space:
            name, before = f"{way.space} name of {node}", False
        if not before:
            spaces[way.space][identifier] = name if way.space == space else f"worse name of {node}"
    tables[known.table or f"{kind.upper()}.tsv"].append(row)
    return name


def _triples(nodes: list[str]) -> list[tuple[str, str, str]]:
    """8,000 rows: repeated ones, pairs of two predicates and of both directions, a hub, loops, codes."""
    print("seed", SEED)
    rng = random.Random(SEED)
    rows = [(node, "acts_in", rng.choice(nodes)) for node in nodes]
    kinds = [f"relation_{number}" for number in range(17)]
    rows += [(rng.choice(nodes[:300]), rng.choice(kinds), rng.choice(nodes)) for _ in range(1500)]
    rows += [(nodes[5], "has_target", node) for node in nodes[100:260]]
    rows += [(rng.choice(nodes), "has_code", f"B{rng.randrange(33):02d}XA") for _ in range(60)]
    rows += [(target, kind, source) for source, kind, target in rng.sample(rows[:1500], 100)]
    rows += [(source, "other", target) for source, _, target in rng.sample(rows[:1500], 200)]
    return [*rows, *rng.sample(rows, 50)]


def reduced_by_hand(names: dict[str, str], triples: list[tuple[str, str, str]]) -> tuple[int, int]:
    pairs = {
        frozenset((source, target))
        for source, kind, target in triples
        if kind != "has_code" and source != target and names.get(source) and names.get(target)
    }
    degree = Counter(node for pair in pairs for node in pair)
    kept = {node for node, count in degree.items() if 3 <= count <= 100}
    return len(kept), sum(pair <= kept for pair in pairs)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oregano")
    return folder, *plant(folder)


def test_each_class_is_named_by_the_papers_order_of_spaces(load, planted):
    folder, names, _ = planted
    graph, report = hydrate(load("oregano", path=folder), load_recipe(folder / "recipe.yaml"), folder=folder)
    for kind, counts in PLANTED.items():
        named = {space: count for space, count in counts.items() if space}
        assert report["classes"][kind]["by_space"] == named, kind
        assert report["classes"][kind]["unnamed"] == counts.get(None, 0)
    hydrated = dict(zip(graph.node_ids.tolist(), graph.names.tolist(), strict=True))
    assert {node: hydrated[node] for node in names} == names
    assert report["classes"]["code"]["named"] == 0


def test_reduction_drops_codes_and_the_unnamed_before_degrees_are_counted(load, planted):
    folder, names, triples = planted
    graph = load("oregano", path=folder, hydrate=folder / "recipe.yaml")
    reduced = reduce_to(graph, GraphConfig(exclude_edge_types=["has_code"])).graph
    assert (reduced.num_nodes, stats(reduced)["simple_edges"]) == reduced_by_hand(names, triples)
    everyone = {node: "named" for row in triples for node in (row[0], row[2])}
    assert reduced_by_hand(everyone, triples) != reduced_by_hand(names, triples)
