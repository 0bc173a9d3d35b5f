# ruff: noqa: E501 - a case is one line

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.engines.http import answer_within
from kgqa_hpc.errors import ConfigError, GraphFormatError
from kgqa_hpc.kg.file import write_graph
from kgqa_hpc.plugins.biokg.hydrate import cleaned, hydrate
from kgqa_hpc.plugins.biokg.recipe import Rules, Space, load_recipe
from kgqa_hpc.plugins.biokg.spaces import read_names

PUBCHEM, DRUGBANK = ({"space": name, "column": name.upper()} for name in ("pubchem", "drugbank"))
COMPOUNDS = {"table": "COMPOUND.tsv", "names": [{"space": "given"}, PUBCHEM, DRUGBANK]}
SPACES = {
    "pubchem": {"table": "pubchem.tsv", "prefixes": ["CID"], "date": "2024-12-03", "licence": "Public"},
    "drugbank": {"table": "drugbank.csv", "licence": "CC0 1.0"},
}
OBO = "http://purl.obolibrary.org/obo/HP_"


def _recipe(folder: Path, **parts):
    recipe = {"classes": {"compound": COMPOUNDS}, "spaces": SPACES, **parts}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return load_recipe(folder / "recipe.yaml")


@pytest.fixture
def named(graph, tables, tmp_path):
    """The graph hydrated by a recipe, and the report."""
    return lambda recipe, **more: hydrate(graph, recipe, folder=tables, cache=tmp_path / "cache", **more)


@pytest.fixture
def web(tables, service):
    """A recipe for genes with the web service; arguments are settings of the resolver."""
    resolver = {"url": service.url, "name": ["name"], "check": ["id"], "per_second": 100, "timeout": 60}

    def recipe(space="ncbi", **settings):
        gene = {"table": "GENES.tsv", "names": [{"space": space, "column": "NCBI"}]}
        web = {"resolver": resolver | {"attempts": 2} | settings, "licence": "public domain"}
        return _recipe(tables, classes={"gene": gene}, spaces={space: web})

    return recipe


def test_each_node_is_named_by_the_first_space_that_has_a_name_and_says_which(named, tables):
    graph, report = named(_recipe(tables))
    names = ["Botulinum_toxin", "Imatinib", "Sal t, old", "Five", "", "", "", "left alone"]
    assert graph.names.tolist() == names
    origin = {name: column.to_pylist() for name, column in graph.node_properties.items()}
    assert origin["name_space"][:5] == ["given", "pubchem", "drugbank", "drugbank", None]
    assert origin["name_id"][:5] == [None, "20", "DB3", "DB5", None]
    assert origin["name_table"][1:3] == ["pubchem.tsv", "drugbank.csv"]
    assert origin["name_date"][1] == "2024-12-03"
    row = report["classes"]["compound"]
    assert (row["nodes"], row["named"], row["unnamed"]) == (5, 4, 1)
    assert row["by_space"] == {"given": 1, "pubchem": 1, "drugbank": 2}
    assert (row["identifiers"], row["suffixes"], row["control_characters"]) == (1, 1, 1)
    # Counts of nodes that stay unnamed, not of lookups.
    assert (row["no_identifier"], row.get("identifier_without_name", 0)) == (1, 0)
    assert report["classes"]["gene"]["named"] == 0
    assert report["classes"]["other"]["by_space"] == {"given": 1}
    # An id with two names is a conflict, and the first counts.
    space = report["spaces"]["pubchem"]
    assert (space["wanted"], space["conflicts"]) == (3, 1)
    assert space["examples_of_conflicts"] == {"20": ["Imatinib [CID:20]", "Gleevec"]}


def test_hydrating_twice_is_the_same_as_once_to_the_byte(graph, tables, tmp_path):
    recipe = _recipe(tables)
    once, again = (hydrate(graph, recipe, folder=tables)[0] for _ in range(2))
    twice, _ = hydrate(once, recipe, folder=tables)
    for name, result in (("1", once), ("2", again), ("3", twice)):
        write_graph(tmp_path / name, result)
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
    ("rules", "table", "names", "count"),
    [
        ({"overlong": "keep"}, f"20\t{'x' * 30}\n", ["x" * 30], {"overlong": 0}),
        ({"overlong": "cut", "longest": 20}, f"20\t{'x' * 30}\n", ["x" * 19 + "…"], {"overlong": 1}),
        ({"overlong": "drop", "longest": 20}, f"20\t{'x' * 30}\n", [""], {"overlong": 1}),
        ({"duplicates": "add_id"}, "20\ta\n30\ta\n", ["a (COMPOUND:2)", "a (COMPOUND:3)"], {"duplicates": 2}),
    ],
)
def test_overlong_and_shared_names_follow_the_rules_and_count(named, tables, rules, table, names, count):
    (tables / "pubchem.tsv").write_text("id\tname\n" + table, encoding="utf-8")
    classes = {"compound": {**COMPOUNDS, "names": COMPOUNDS["names"][:2]}}
    graph, report = named(_recipe(tables, classes=classes, rules=rules))
    assert graph.names[1 : 1 + len(names)].tolist() == names
    assert {key: report["classes"]["compound"].get(key, 0) for key in count} == count


def test_a_table_that_is_not_there_is_reported_and_a_malformed_row_named_by_its_line(named, tables):
    (tables / "drugbank.csv").unlink()
    graph, report = named(_recipe(tables))
    assert report["spaces"]["drugbank"]["table_is_missing"]
    assert graph.names[1] == "Imatinib"
    (tables / "drugbank.csv").write_text("id,name\nDB3,a\nDB5\n", encoding="utf-8")
    with pytest.raises(GraphFormatError, match=r"drugbank\.csv line 3: expected 2 fields, found 1"):
        named(_recipe(tables))


@pytest.mark.parametrize(
    ("file", "text", "keys"),
    [
        ("t.json", '{"HP:20": "fever", "x": 1}', {}),
        ("t.json", '[{"k": "20", "label": "fever"}]', {"id": "k", "name": "label"}),
        ("t.jsonl", '{"k": "HP:20", "label": "fever"}\n', {"id": "k", "name": "label"}),
        ("t.tsv", f"label\tk\nfever\t{OBO}20\n", {"id": "k", "name": "label"}),
    ],
)
def test_names_are_read_from_any_sort_of_table_and_any_form_of_id(named, tables, file, text, keys):
    (tables / file).write_text(text, encoding="utf-8")
    space = {"table": file, "licence": "x", "prefixes": ["HP"], "uri": OBO, **keys}
    classes = {"compound": {"table": "COMPOUND.tsv", "names": [{"space": "hp", "column": "PUBCHEM"}]}}
    (tables / "COMPOUND.tsv").write_text("ID\tPUBCHEM\nCOMPOUND:2\thp:20\n", encoding="utf-8")
    assert named(_recipe(tables, classes=classes, spaces={"hp": space}))[0].names[1] == "fever"


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


def test_a_web_service_is_left_alone_unless_it_is_allowed(named, web, service):
    _, report = named(web())
    assert service.asked == []
    assert report["spaces"]["ncbi"]["not_asked"] == 2


def asked(service):
    return [key for _, key in service.asked]


def test_a_web_service_is_asked_once_for_each_id_and_its_answers_kept(named, web, service):
    first, second = (named(web(), web=True)[0] for _ in range(2))
    assert first.names[5:7].tolist() == second.names[5:7].tolist() == ["gene 100", "gene 200"]
    assert asked(service) == ["100", "200"]
    assert first.node_properties["name_date"][5] == second.node_properties["name_date"][5]


def test_spaces_with_similar_names_keep_their_answers_apart(named, web, service):
    for space, ending in (("x-y", ""), ("x_y", "?other")):
        graph, _ = named(web(space, url=service.url + ending, check=None), web=True)
        assert graph.names[5:7].tolist() == [f"gene 100{ending}", f"gene 200{ending}"]


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("fails", "unreachable"), ("dies", "unreachable"), ("silent", "unreachable"), ("trickles", "unreachable"),
        ("headers", "unreachable"), ("unknown", "not_found"), ("lies", "another_id"), ("html", "unreadable"),
        ("huge", "unreadable"),
    ],
)  # fmt: skip
def test_a_service_that_misbehaves_for_an_id_names_the_others(named, web, service, monkeypatch, mood, reason):
    def impatient(request, seconds, largest):
        # Of this id alone: a loaded machine may answer the others slowly.
        hurry = mood in ("silent", "trickles", "headers") and request.full_url.endswith("/100")
        return answer_within(request, 0.5 if hurry else seconds, largest)

    monkeypatch.setattr("kgqa_hpc.plugins.biokg.spaces.answer_within", impatient)
    service.mood["100"] = mood
    graph, report = named(web(), web=True)
    assert graph.names[5:7].tolist() == ["", "gene 200"]
    assert report["spaces"]["ncbi"][reason] == 1
    assert report["unreachable"] == (reason == "unreachable")


def test_what_got_no_answer_is_asked_again_and_the_rest_is_not(named, web, service):
    service.mood["100"] = "fails"
    recipe = web(attempts=1)
    named(recipe, web=True)
    service.mood.clear()
    assert named(recipe, web=True)[0].names[5:7].tolist() == ["gene 100", "gene 200"]
    assert asked(service) == ["100", "200", "100"]


def test_a_dead_service_is_left_alone_after_some_ids(named, web, service):
    service.mood["*"] = "fails"
    _, report = named(web(attempts=1, give_up_after=1), web=True)
    assert report["unreachable"] == 2
    assert len(service.asked) == 1


def test_requests_keep_the_pace_and_each_answer_is_on_disk_before_the_next_request(
    named, web, service, monkeypatch, tmp_path
):
    now, answers = [1000.0], []  # a clock on which nothing but waiting takes time

    def read_clock():
        answers.append(b"".join(path.read_bytes() for path in tmp_path.glob("cache/*")))
        return now[0]

    service.clock = read_clock
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds))
    monkeypatch.setattr("kgqa_hpc.plugins.biokg.spaces.time", clock)
    named(web(per_second=5), web=True)
    (first, _), (second, _) = service.asked
    assert second - first == pytest.approx(0.2)
    assert answers[0] == b""
    assert b"gene 100" in answers[1]  # a kill loses none


def test_a_torn_line_of_the_kept_answers_is_cut_and_asked_for_again(named, web, service, tmp_path):
    named(web(), web=True)
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    assert named(web(), web=True)[0].names[6] == "gene 200"
    assert asked(service) == ["100", "200", "200"]
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"1": "a name"}', "is larger than"), ("[" * 65 + "]" * 65, "line 1: not JSON: nested")],
)
def test_a_json_document_beyond_its_bounds_is_refused(tmp_path, monkeypatch, text, reason):
    monkeypatch.setattr("kgqa_hpc.plugins.biokg.spaces.LARGEST", 10 if "name" in text else 200)
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(GraphFormatError, match=rf"t\.json:? {reason}"):
        read_names(Space(table="t.json", licence="CC0"), tmp_path / "t.json", {"1"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("  Imatinib \t mesylate ", "Imatinib mesylate"),
        ("Imatinib [DB00619]", "Imatinib"),
        ("a [Source:HGNC Symbol;Acc:HGNC:7]", "a"),
        ("a (MESH:D01)", "a"),
        ("alcohol dehydrogenase 1C (class I)", "alcohol dehydrogenase 1C (class I)"),
        ("Botulinum_toxin", "Botulinum toxin"),
        ("fever (drug)", "fever"),
        ("e\u0301", "\u00e9"),
        ("a\x1b[31mb\x00", "a [31mb"),
        ("DB00619", ""), ("db00619", ""), ("12345", ""), ("http://x.org/1", ""), ("", ""),
        ("HP:0000118", "HP:0000118"),  # where the id is known, a CURIE of another is a name
        ("ratio 1:2", "ratio 1:2"),
        ("PC(16:0/18:1)", "PC(16:0/18:1)"), ("Cer(d18:1/16:0)", "Cer(d18:1/16:0)"), ("A with B (1:1)", "A with B (1:1)"),
        ("[x]", "[x]"),
    ],
)  # fmt: skip
def test_a_text_becomes_a_name_by_the_stated_rules(text, name):
    known = ["DB00619", ""]
    assert cleaned(text, known, Rules(), Counter(), underscores=True, suffixes=["(drug)"]) == name


def test_a_curie_is_no_name_where_no_id_is_known():
    assert cleaned("HP:0000118", [], Rules(), Counter()) == ""
    assert cleaned("HP:0000118", [], Rules(ids="keep"), Counter()) == "HP:0000118"


@given(st.text(max_size=60), st.text(max_size=5))
def test_any_text_gives_a_printable_name_that_stays_itself(text, key):
    name = cleaned(text, [key], Rules(), Counter())
    assert name.isprintable()
    assert name == name.strip()
