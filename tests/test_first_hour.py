"""Mistakes of a first hour: each ends with exit code 2 and one message whose cure fits the mistake."""

import io
import json
import re
import ssl
import subprocess
import zipfile
from pathlib import Path

import pytest

from kgqa_hpc.run import Run
from tests.command import kgqa
from tests.project import edit
from tests.servers import QuietHandler, serving

PAGE = Path(__file__).parents[1] / "docs/tutorial/1-own-graph.md"
SCRIPTED = "{kind: scripted, accept: 0.8}"  # the engine of geo.yaml
FILES = re.compile(r"cat > (\S+) <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the first tutorial with its tables, prompt and configurations, as working folder."""
    (tmp_path / "prompts").mkdir()
    for name, text in FILES.findall(PAGE.read_text("utf-8")):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(*words: object) -> str:
    return kgqa(*words, code=2).stderr


@pytest.mark.parametrize("verb", ["run", "show", "status", "merge"])
def test_a_configuration_in_place_of_a_run_folder_is_named_as_such(own: Path, verb: str) -> None:
    said = refusal(verb, "facts.yaml")
    assert "facts.yaml: is a file, not a run folder" in said
    assert "kgqa init facts.yaml RUN" in said


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("seed: 1\n\tgraph: 2\n", "indent with spaces, not tabs"),
        ("title: My run: great\n", 'a value that holds ": " into quotes'),
        ("a: @x\n", "a value that begins with @"),
        ("steps: [a, {use: b}\nx: 1\n", "close the bracket or brace"),
        ('a: "x\n', "close the quote"),
        ("passes:\n- a\nb: c\n  d: e\n", "indent keys of one level equally"),
        ("- a\nb: 1\n", "a list holds only lines that begin with -"),
        ("seed: 1\nseed: 2\n", "keep one of them"),
    ],
)
def test_a_syntax_error_of_yaml_has_a_cure(own: Path, text: str, cure: str) -> None:
    Path("own.yaml").write_text(text)
    said = refusal("init", "own.yaml", "run")
    assert re.search(r"own\.yaml line \d: not YAML", said)
    assert cure in said


# The command; the file that is edited before, its old and its new text; words of the refusal.
MISTAKES = {
    "all runs facts.yaml": ("", "", "", ["the configuration comes first, then the run folder: facts.yaml runs"]),
    "init facts.yaml run -q": ("", "", "", ["kgqa -q init"]),
    "init geo.yaml run": ("prompts/geo.md", "{{ number }}", "{{ nmber }}", [
        "geo.md line 19: 'nmber' is undefined, did you mean number?", "it may name nodes, edges, relations",
    ]),
    "init geo.yaml other": ("geo.yaml", "folder: prompts, ", "", [
        "prompt geo: no such prompt", "the folder that prompts.folder names",
    ]),
    "init facts.yaml run": ("facts.yaml", "Which river flows by {given}?", "Which river flows by?", [
        "must be a question with {given} once",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_has_one_message_whose_cure_fits(own: Path, command: str) -> None:
    (own / "runs").mkdir()
    file, old, new, told = MISTAKES[command]
    if file:
        edit(file, old, new)
    said = refusal(*command.split())
    assert [words for words in told if words not in said] == []
    assert "nothing before it adds" not in said, "a refused step brings no message about the steps behind it"


def test_a_sentence_for_an_unknown_relation_is_noted_and_its_items_name_theirs(own: Path) -> None:
    edit("facts.yaml", "lies_on:", "lies_at:")
    done = kgqa("all", "facts.yaml", "run")
    assert "word.template: lies_at is no relation of the graph, did you mean lies_on?" in done.stderr
    assert "no sentence for lies_on forward" in kgqa("show", "run", "--lost").stdout
    none = kgqa("show", "run", "--rejected").stdout
    assert none.startswith("none rejected")
    assert "6 lost: kgqa show run --lost" in none


def test_a_sentence_for_a_property_is_not_noted(own: Path) -> None:
    head, *rows = (own / "places.csv").read_text().splitlines()
    numbered = [f"{row};{number}" for number, row in enumerate(rows, 1000)]
    (own / "places.csv").write_text("\n".join([f"{head};people", *numbered]) + "\n")
    edit("facts.yaml", "max_answers: 1", "max_answers: 1, attributes: [people]")
    edit("facts.yaml", "lies_on:", 'people: "How many people live in {given}?"\n          lies_on:')
    kgqa("init", "facts.yaml", "run")
    kgqa("import", "run")
    done = kgqa("sample", "run")
    assert "is no relation" not in done.stdout + done.stderr


def test_a_sentence_that_does_not_say_which_of_several_types_it_asks_for_is_noted(own: Path) -> None:
    with (own / "relations.csv").open("a") as file:
        file.write("VIE;BUD;lies_on\n")
    remark = "lies_on forward leads to several types of nodes"
    assert remark in kgqa("all", "facts.yaml", "noted").stderr
    edit("facts.yaml", "Which river flows by", "Which {asked} flows by")
    assert remark not in kgqa("all", "facts.yaml", "run").stderr


def test_one_sentence_for_both_directions_has_all_answers_of_a_symmetric_relation_and_is_noted_otherwise(
    own: Path,
) -> None:
    with (own / "relations.csv").open("a") as file:
        file.write("VIE;BTS;near_to\nBUD;VIE;near_to\nVIE;BUD;near_to\n")
    edit("facts.yaml", "max_answers: 1", "max_answers: 5, relations: [near_to]")
    edit("facts.yaml", "lies_on:", 'near_to: "Which city is near {given}?"\n          lies_on:')
    remark = "near_to has the same sentence for both directions"
    done = kgqa("all", "facts.yaml", "one_way")
    assert remark in done.stderr
    edit("facts.yaml", "min_degree:", "symmetric_edge_types: [near_to]\n  min_degree:")
    done = kgqa("all", "facts.yaml", "run")
    assert remark not in done.stdout + done.stderr
    lines = (own / "run/dataset/accepted.jsonl").read_text().splitlines()
    assert sorted((record["question"], record["answers"]) for record in map(json.loads, lines)) == [
        ("Which city is near Bratislava?", ["Vienna"]),
        ("Which city is near Budapest?", ["Vienna"]),
        ("Which city is near Vienna?", ["Bratislava", "Budapest"]),
    ]
    edit("facts.yaml", "[near_to]\n  min", "[near]\n  min")
    assert "symmetric_edge_types: the graph has no edge type 'near'" in refusal("all", "facts.yaml", "other")


def test_a_judge_with_the_name_of_a_step_is_told_to_take_another(own: Path) -> None:
    kgqa("all", "geo.yaml", "run")
    said = refusal("judge", "run", "--prompt", "filter", "--name", "judge")
    assert "has a step 'judge' already" in said
    assert "give the new judge another --name" in said


def test_a_language_is_a_code_and_an_unknown_licence_is_missing_at_publish(own: Path) -> None:
    kgqa("all", "facts.yaml", "run")
    assert "'English' is no language code" in refusal("merge", "run", "--set", "language=English")
    kgqa("merge", "run", "--set", "language=[en, pt-BR]", "--set", "licence=ccby")
    said = kgqa("publish", "run", "upload").stdout
    assert "an identifier or a link of the licence 'ccby', did you mean cc-by-4.0?: dataset.licence" in said
    (own / "new.yaml").write_text("dataset: {language: en, z_score: null}")
    kgqa("merge", "run", "--config", "new.yaml", "--set", "title=New")
    dataset = Run(own / "run").config.dataset
    assert (dataset.language, dataset.title, dataset.licence) == ("en", "New", None), "whole, and then --set"


def test_a_test_file_given_to_merge_is_found_from_every_folder(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own / "test.jsonl").write_text('{"question": "Which city is the capital of Hungary?"}\n')
    kgqa("all", "facts.yaml", "run")
    assert "contaminated" in kgqa("merge", "run", "--set", "decontaminate=[test.jsonl]").stdout
    monkeypatch.chdir(own / "run")
    assert "contaminated" in kgqa("merge", ".").stdout


def test_a_file_is_written_into_a_new_folder_and_not_over_a_folder(own: Path) -> None:
    Path("texts.jsonl").write_text('{"id": "1", "text": "a", "question": "b?"}\n')
    kgqa("score", "texts.jsonl", "texts.jsonl", "--joined", "new/joined.jsonl")
    assert Path("new/joined.jsonl").exists()
    said = kgqa("score", "texts.jsonl", "texts.jsonl", "--joined", "new", code=1).stderr
    assert said == "error: new: Is a directory\n       name a file, or move the folder elsewhere\n"


def test_an_export_of_the_graph_is_not_written_over_the_files_that_it_was_read_from(own: Path) -> None:
    kgqa("all", "facts.yaml", "run")
    kgqa("kg", "export", "run", "mine.csv")
    kgqa("kg", "export", "run", "mine.csv")
    source = {"source": "csv", "nodes": "mine.nodes.csv", "edges": "mine.edges.csv", "min_degree": 1}
    Path("again.yaml").write_text(json.dumps({"graph": source, "engine": {"kind": "scripted"}}))
    kgqa("init", "again.yaml", "again")
    kgqa("import", "again")
    assert "the run was made from this file" in refusal("kg", "export", "again", own / "mine.csv")


def test_page_and_card_of_a_rehearsal_say_that_its_texts_are_made_up(own: Path) -> None:
    kgqa("all", "geo.yaml", "geo")
    made_up = "by the scripted engine: made-up texts and verdicts of a rehearsal"
    assert made_up in Path("geo/dataset/README.md").read_text()
    assert "A rehearsal: the scripted engine made up" in Path("geo/report/index.html").read_text()
    kgqa("all", "facts.yaml", "facts")
    assert "worded without a language model" in Path("facts/dataset/README.md").read_text()
    assert "A rehearsal" not in Path("facts/report/index.html").read_text()


def test_a_preview_tells_short_times_in_seconds_or_minutes(own: Path) -> None:
    said = kgqa("preview", "geo.yaml", "-n", "1").stdout
    assert " 0.00 s" not in said
    assert " hours" not in said


def test_the_words_of_a_function_that_fails_are_told_by_preview_and_run(
    own: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = "def answer(messages, schema, seed):\n    raise RuntimeError('no such account')\n"
    Path("failing.py").write_text(code)
    edit("geo.yaml", SCRIPTED, '{kind: function, call: "failing:answer"}')
    edit("geo.yaml", "5, shapes: [1, 2, 3, 4, 5]", "2, shapes: [1, 2]")  # too few to stop at
    assert "    < RuntimeError: no such account" in kgqa("preview", "geo.yaml", "-n", "1").stdout
    assert "failed at the end" not in caplog.text  # there are no results to delete
    caplog.clear()
    kgqa("all", "geo.yaml", "geo")
    told, at_end = (record.getMessage() for record in caplog.records)
    assert told.endswith(": RuntimeError: no such account")
    assert at_end.startswith("failed at the end: 4 items (generate: engine error)")


def workbook() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            archive.writestr(name, "<x/>")
    return data.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (workbook(), "is an Excel workbook\n       save the sheet as CSV"),
        ("code;label;category\nDAN;Donau;river\n".encode("utf-16"), "iconv -f utf-16 -t utf-8 places.csv"),
        ("code;label;category\nDAN;Südsee;river\n".encode("latin-1"), "iconv -f latin1 -t utf-8 places.csv"),
        (
            b"DAN;Danube;river\nSAV;Sava;river\n",
            "the first line must name the columns; it reads DAN,Danube,river",
        ),
        (b"code;label;category\nDAN;Danube\n", "give each row a field for every column"),
        (b"code;label;category\nDAN;Danube;river;long\n", "put fields that contain a semicolon in quotes"),
    ],
    ids=["excel", "utf-16", "latin-1", "no header", "too few fields", "too many fields"],
)
def test_a_table_that_cannot_be_read_has_a_cure(own: Path, content: bytes, words: str) -> None:
    Path("places.csv").write_bytes(content)
    kgqa("init", "facts.yaml", "run")
    assert words in refusal("import", "run")


@pytest.mark.parametrize("other", ["{} ", "\u00a0{}", "{}.0", "{}"])
def test_an_id_that_a_program_changed_in_one_table_is_told_with_its_other_form(own: Path, other: str) -> None:
    places, relations = Path("places.csv"), Path("relations.csv")
    for code, form in (("DAN", other.format("7")), ("SAV", other.format("sav"))):
        places.write_text(re.sub(f"^{code}", form, places.read_text(), flags=re.MULTILINE))
        relations.write_text(relations.read_text().replace(code, "7" if code == "DAN" else code))
    kgqa("init", "facts.yaml", "run")
    said = refusal("import", "run")
    assert re.search(r"relations\.csv line \d+: (source|target) '(7|SAV)' is not in places\.csv", said)
    assert f"there it is {other.format('sav' if 'SAV' in said else '7')!r}; write ids alike" in said


def test_triples_without_a_header_are_led_to_their_source(own: Path) -> None:
    Path("relations.csv").write_text("DAN;flows_through;DE\n")
    kgqa("init", "facts.yaml", "run")
    assert "source: triples reads subject, predicate, object without them" in refusal("import", "run")


def endpoint(url: str) -> None:
    edit("geo.yaml", SCRIPTED, f"{{kind: openai, base_url: '{url}', model: m}}")


def test_a_wrong_address_is_refused_soon_with_the_other_one_or_what_to_check(own: Path) -> None:
    endpoint("http://no-such-host.invalid/v1")
    assert "check the name of the host" in refusal("preview", "geo.yaml", "-n", "1")
    with serving(QuietHandler) as url:  # without TLS
        edit("geo.yaml", "http://no-such-host.invalid/v1", url.replace("http:", "https:"))
        said = refusal("preview", "geo.yaml", "-n", "1")
    assert f"try {url}" in said
    assert "trying for 5 s" in said  # in place of 30 s for a server that may still start


def test_a_certificate_that_nobody_trusts_is_told_without_advice_to_send_the_key_in_clear(own: Path) -> None:
    name = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    words = ["openssl", *f"req -x509 -newkey rsa:2048 -nodes -days 2 {name}".split()]
    subprocess.run(words, capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("cert.pem", "key.pem")
    with serving(QuietHandler, context) as url:
        endpoint(url.replace("http:", "https:"))
        said = refusal("preview", "geo.yaml", "-n", "1")
    assert "SSL_CERT_FILE" in said
    assert "http:" not in said
