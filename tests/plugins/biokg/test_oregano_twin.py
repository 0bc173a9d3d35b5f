"""OREGANO's names on a twin: files of its form, in which every published kind of name is planted at a hundredth."""

import shutil
from collections import defaultdict
from pathlib import Path

from kgqa_hpc.plugins.biokg.hydrate import hydrate
from kgqa_hpc.plugins.biokg.recipe import EntityClass, load_recipe

RECIPE = Path(__file__).parents[3] / "configs" / "hydrate_oregano.yaml"
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


def plant(folder: Path) -> dict[str, str]:
    """Write all files; returns the name of each node."""
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
    rows = [f"{node}\tacts_in\t{node}\n" for node in names]
    text = "".join([*rows, f"{next(iter(names))}\thas_code\tB01XA\n"])
    (folder / "OREGANO_V2.1.tsv").write_text(text, encoding="utf-8")
    return names


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


def test_each_class_is_named_by_the_papers_order_of_spaces(load, tmp_path):
    names, recipe = plant(tmp_path), load_recipe(tmp_path / "recipe.yaml")
    graph, report = hydrate(load("oregano", path=tmp_path), recipe, folder=tmp_path)
    for kind, counts in PLANTED.items():
        named = {space: count for space, count in counts.items() if space}
        assert report["classes"][kind]["by_space"] == named, kind
        assert report["classes"][kind]["unnamed"] == counts.get(None, 0)
    hydrated = dict(zip(graph.node_ids.tolist(), graph.names.tolist(), strict=True))
    assert {node: hydrated[node] for node in names} == names
    assert report["classes"]["code"]["named"] == 0
