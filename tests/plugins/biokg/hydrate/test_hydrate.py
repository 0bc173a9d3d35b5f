# ruff: noqa: E501 - a case is one line
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from kgqa_hpc.errors import ConfigError, GraphFormatError
from kgqa_hpc.kg.file import read_graph, write_graph
from kgqa_hpc.plugins.biokg.hydrate.hydrate import hydrate
from kgqa_hpc.plugins.biokg.hydrate.recipe import Space, load_recipe
from kgqa_hpc.plugins.biokg.hydrate.spaces import read_names
from kgqa_hpc.text import services
from tests.waiting import wait_for

COMPOUNDS = {
    "table": "COMPOUND.tsv",
    "names": [
        {"space": "given"},
        {"space": "pubchem", "column": "PUBCHEM"},
        {"space": "drugbank", "column": "DRUGBANK"},
    ],
}
SPACES = {
    "pubchem": {
        "table": "pubchem.tsv",
        "prefixes": ["CID"],
        "date": "2024-12-03",
        "licence": "public domain",
    },
    "drugbank": {"table": "drugbank.csv", "licence": "CC0 1.0"},
}


def _recipe(folder: Path, **parts):
    path = folder / "recipe.yaml"
    path.write_text(
        yaml.safe_dump({"classes": {"compound": COMPOUNDS}, "spaces": SPACES, **parts}), encoding="utf-8"
    )
    return load_recipe(path)


def _web(folder: Path, service, **settings):
    resolver = {
        "url": service.url,
        "name": ["name"],
        "check": ["id"],
        "per_second": 100,
        "timeout": 60,
        "attempts": 2,
    }
    gene = {"table": "GENES.tsv", "names": [{"space": "ncbi", "column": "NCBI"}]}
    spaces = {"ncbi": {"resolver": resolver | settings, "licence": "public domain"}}
    return _recipe(folder, classes={"gene": gene}, spaces=spaces)


def test_each_node_is_named_by_the_first_space_that_has_a_name_and_says_which(graph, tables):
    named, report = hydrate(graph, _recipe(tables), folder=tables)
    assert named.names.tolist() == [
        "Botulinum_toxin",
        "Imatinib",
        "Sal t, old",
        "Five",
        "",
        "",
        "",
        "left alone",
    ]
    origin = {name: column.to_pylist() for name, column in named.node_properties.items()}
    assert origin["name_space"][:5] == ["given", "pubchem", "drugbank", "drugbank", None]
    assert origin["name_id"][:5] == [None, "20", "DB3", "DB5", None]
    assert origin["name_table"][1:3] == ["pubchem.tsv", "drugbank.csv"]
    assert origin["name_date"][1] == "2024-12-03"
    row = report.classes["compound"]
    assert (row["nodes"], row["named"], row["unnamed"]) == (5, 4, 1)
    assert row["by_space"] == {"given": 1, "pubchem": 1, "drugbank": 2}
    assert (row["identifiers"], row["suffixes"], row["control_characters"]) == (1, 1, 1)
    assert report.classes["gene"]["named"] == 0
    assert report.classes["other"]["by_space"] == {"given": 1}


def test_an_id_with_two_names_is_a_conflict_and_the_first_counts(graph, tables):
    _, report = hydrate(graph, _recipe(tables), folder=tables)
    assert report.spaces["pubchem"]["conflicts"] == 1
    assert report.spaces["pubchem"]["examples_of_conflicts"] == {"20": ["Imatinib [CID:20]", "Gleevec"]}
    assert report.spaces["pubchem"]["wanted"] == 3


def test_hydrating_twice_is_the_same_as_once_to_the_byte(graph, tables, tmp_path):
    recipe = _recipe(tables)
    once, _ = hydrate(graph, recipe, folder=tables)
    again, _ = hydrate(graph, recipe, folder=tables)
    twice, _ = hydrate(once, recipe, folder=tables)
    for name, each in (("1", once), ("2", again), ("3", twice)):
        write_graph(tmp_path / name, each, {})
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes() == (tmp_path / "3").read_bytes()


def test_a_given_name_that_was_replaced_is_kept_beside_the_new_one(graph, tables):
    first = {**COMPOUNDS, "names": [{"space": "own", "after": "COMPOUND:"}, {"space": "given"}]}
    (tables / "own.jsonl").write_text('{"id": "1", "name": "new"}\n', encoding="utf-8")
    spaces = {"own": {"table": "own.jsonl", "licence": "CC0"}}
    recipe = _recipe(tables, classes={"compound": first}, spaces=spaces)
    named, _ = hydrate(graph, recipe, folder=tables)
    assert named.names[0] == "new"
    assert named.node_properties["given_name"][0].as_py() == "Botulinum_toxin"
    back, _ = hydrate(named, _recipe(tables), folder=tables)
    assert back.names[0] == "Botulinum_toxin"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ({"overlong": "keep"}, "x" * 30),
        ({"overlong": "cut", "longest": 20}, "x" * 19 + "…"),
        ({"overlong": "drop", "longest": 20}, ""),
    ],
)
def test_overlong_names_are_kept_cut_or_dropped_and_counted(graph, tables, rules, name):
    (tables / "pubchem.tsv").write_text(f"id\tname\n20\t{'x' * 30}\n", encoding="utf-8")
    spaces = {"pubchem": SPACES["pubchem"]}
    classes = {"compound": {**COMPOUNDS, "names": COMPOUNDS["names"][:2]}}
    named, report = hydrate(
        graph, _recipe(tables, classes=classes, spaces=spaces, rules=rules), folder=tables
    )
    assert named.names[1] == name
    assert report.classes["compound"].get("overlong", 0) == ("longest" in rules)


def test_names_that_several_nodes_have_are_counted_and_can_be_told_apart(graph, tables):
    (tables / "pubchem.tsv").write_text("id\tname\n20\tsame\n30\tsame\n", encoding="utf-8")
    named, report = hydrate(graph, _recipe(tables, rules={"duplicates": "add_id"}), folder=tables)
    assert named.names[1:3].tolist() == ["same (COMPOUND:2)", "same (COMPOUND:3)"]
    assert report.classes["compound"]["duplicates"] == 2


def test_a_table_that_is_not_there_is_reported_and_left_out(graph, tables):
    (tables / "drugbank.csv").unlink()
    named, report = hydrate(graph, _recipe(tables), folder=tables)
    assert report.spaces["drugbank"]["table_is_missing"]
    assert named.names[1] == "Imatinib"


def test_a_malformed_row_of_a_table_is_named_by_file_and_line(graph, tables):
    (tables / "drugbank.csv").write_text("id,name\nDB3,a\nDB5\n", encoding="utf-8")
    with pytest.raises(GraphFormatError, match=r"drugbank\.csv line 3: expected 2 fields, found 1"):
        hydrate(graph, _recipe(tables), folder=tables)


@pytest.mark.parametrize(
    ("file", "text", "keys"),
    [
        ("t.json", '{"HP:20": "fever", "x": 1}', {}),
        ("t.json", '[{"k": "20", "label": "fever"}]', {"id": "k", "name": "label"}),
        ("t.jsonl", '{"k": "HP:20", "label": "fever"}\n', {"id": "k", "name": "label"}),
        ("t.tsv", "label\tk\nfever\thttp://purl.obolibrary.org/obo/HP_20\n", {"id": "k", "name": "label"}),
    ],
)
def test_names_are_read_from_any_sort_of_table_and_any_form_of_id(graph, tables, file, text, keys):
    (tables / file).write_text(text, encoding="utf-8")
    space = {
        "table": file,
        "licence": "x",
        "prefixes": ["HP"],
        "uri": "http://purl.obolibrary.org/obo/HP_",
        **keys,
    }
    classes = {"compound": {"table": "COMPOUND.tsv", "names": [{"space": "hp", "column": "PUBCHEM"}]}}
    (tables / "COMPOUND.tsv").write_text("ID\tPUBCHEM\nCOMPOUND:2\thp:20\n", encoding="utf-8")
    named, _ = hydrate(graph, _recipe(tables, classes=classes, spaces={"hp": space}), folder=tables)
    assert named.names[1] == "fever"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"spacess": {}}, "spacess: unknown key"),
        ({"classes": {"compound": {"names": [{"space": "pubchm"}]}}}, "space pubchm is nowhere described, did you mean pubchem?"),
        ({"spaces": {"pubchem": {"licence": "x"}}}, "needs one of table, obo and resolver"),
        ({"classes": {"c": {"names": [{"space": "pubchem", "column": "X"}]}}}, "column X of which table?"),
        ({"classes": {}}, "classes: "),
    ],
)  # fmt: skip
def test_a_recipe_that_cannot_work_is_refused_with_its_key(tables, parts, message):
    with pytest.raises(ConfigError) as caught:
        _recipe(tables, **parts)
    assert message in caught.value.message


def test_the_shipped_recipe_names_the_classes_of_oregano_in_the_papers_order():
    recipe = load_recipe(Path(__file__).parents[4] / "configs" / "hydrate_oregano.yaml")
    orders = {kind: [source.space for source in each.names] for kind, each in recipe.classes.items()}
    assert orders["compound"] == ["given", "pubchem_compound", "drugbank", "npass", "sider", "pharmgkb"]
    assert orders["disease"] == ["omim", "snomedct", "mesh", "umls", "orphanet", "pharmgkb"]
    assert len(orders) == 11
    assert all(space.licence for space in recipe.spaces.values())


def test_a_web_service_is_left_alone_unless_it_is_allowed(graph, tables, service, tmp_path):
    _, report = hydrate(graph, _web(tables, service), folder=tables, cache=tmp_path / "cache")
    assert service.asked == []
    assert report.spaces["ncbi"]["not_asked"] == 2


def test_a_web_service_is_asked_once_for_each_id_and_its_answers_kept(graph, tables, service, tmp_path):
    recipe = _web(tables, service)
    one, _ = hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", web=True)
    two, _ = hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", web=True)
    assert one.names[5:7].tolist() == two.names[5:7].tolist() == ["gene 100", "gene 200"]
    assert [key for _, key in service.asked] == ["100", "200"]
    assert one.node_properties["name_date"][5].as_py() == two.node_properties["name_date"][5].as_py()


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("fails", "unreachable"), ("dies", "unreachable"), ("silent", "unreachable"), ("trickles", "unreachable"), ("headers", "unreachable"), ("unknown", "not_found"),
        ("lies", "another_id"), ("html", "unreadable"), ("huge", "unreadable"),
    ],
)  # fmt: skip
def test_a_service_that_misbehaves_for_one_id_names_the_others(
    graph, tables, service, tmp_path, monkeypatch, mood, reason
):
    ask = services.answer_within

    def impatient(request, seconds):  # of this id alone: a loaded machine may answer the others slowly
        hurry = mood in ("silent", "trickles", "headers") and request.full_url.endswith("/100")
        return ask(request, 0.5 if hurry else seconds)

    monkeypatch.setattr(services, "answer_within", impatient)
    service.mood["100"] = mood
    named, report = hydrate(graph, _web(tables, service), folder=tables, cache=tmp_path / "cache", web=True)
    assert named.names[5:7].tolist() == ["", "gene 200"]
    assert report.spaces["ncbi"][reason] == 1
    assert report.unreachable == (reason == "unreachable")


def test_what_got_no_answer_is_asked_again_and_the_rest_is_not(graph, tables, service, tmp_path):
    service.mood["100"] = "fails"
    recipe = _web(tables, service, attempts=1)
    hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", web=True)
    service.mood.clear()
    named, _ = hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", web=True)
    assert named.names[5:7].tolist() == ["gene 100", "gene 200"]
    assert [key for _, key in service.asked] == ["100", "200", "100"]


def test_a_dead_service_is_left_alone_after_some_ids(graph, tables, service, tmp_path):
    service.mood["*"] = "fails"
    recipe = _web(tables, service, attempts=1, give_up_after=1)
    _, report = hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", web=True)
    assert report.unreachable == 2
    assert len(service.asked) == 1


def test_requests_keep_the_pace_that_is_allowed(graph, tables, service, tmp_path, monkeypatch):
    now = [1000.0]  # a clock on which nothing but waiting takes time
    service.clock = lambda: now[0]
    clock = SimpleNamespace(monotonic=service.clock, sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr("kgqa_hpc.plugins.biokg.hydrate.spaces.time", clock)
    hydrate(graph, _web(tables, service, per_second=5), folder=tables, cache=tmp_path / "cache", web=True)
    (first, _), (second, _) = service.asked
    assert second - first == pytest.approx(0.2)


def test_a_torn_line_of_the_kept_answers_is_cut_and_asked_for_again(graph, tables, service, tmp_path):
    recipe, cache = _web(tables, service), tmp_path / "cache"
    hydrate(graph, recipe, folder=tables, cache=cache, web=True)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    named, _ = hydrate(graph, recipe, folder=tables, cache=cache, web=True)
    assert named.names[6] == "gene 200"
    assert [key for _, key in service.asked] == ["100", "200", "200"]
    assert file.read_bytes() == whole


KILLED = """
import sys
from pathlib import Path
from kgqa_hpc.kg.file import read_graph, write_graph
from kgqa_hpc.plugins.biokg.hydrate.hydrate import hydrate
from kgqa_hpc.plugins.biokg.hydrate.recipe import Space, load_recipe
from kgqa_hpc.plugins.biokg.hydrate.spaces import read_names
tables, cache, source, target = map(Path, sys.argv[1:])
named, _ = hydrate(read_graph(source), load_recipe(tables / "recipe.yaml"), folder=tables, cache=cache, web=True)
write_graph(target, named, {})
"""


def test_a_hydration_killed_half_way_goes_on_and_gives_the_same_bytes(graph, tables, service, tmp_path):
    service.mood["200"] = "silent"
    _web(tables, service)
    write_graph(tmp_path / "kg.h5", graph, {})
    words = [sys.executable, "-c", KILLED, str(tables), str(tmp_path / "cache"), str(tmp_path / "kg.h5")]
    process = subprocess.Popen([*words, str(tmp_path / "killed.h5")])
    try:  # the answer to the first id is on disk by then
        wait_for(
            lambda: "200" in [key for _, key in service.asked] or process.poll() is not None, "the second"
        )
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "killed.h5").exists()
    service.mood.clear()
    for name in ("one.h5", "two.h5"):
        subprocess.run([*words, str(tmp_path / name)], check=True)
    assert read_graph(tmp_path / "one.h5").names[5:7].tolist() == ["gene 100", "gene 200"]
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()
    assert [key for _, key in service.asked] == ["100", "200", "200"]


def test_a_json_document_beyond_its_bound_is_refused_before_it_is_all_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("kgqa_hpc.plugins.biokg.hydrate.spaces.LARGEST", 10)
    (tmp_path / "t.json").write_text(json.dumps({str(number): "name" for number in range(9)}))
    with pytest.raises(GraphFormatError, match=r"t\.json: is larger than"):
        read_names(Space(table="t.json", licence="CC0"), tmp_path / "t.json", {"1"})
