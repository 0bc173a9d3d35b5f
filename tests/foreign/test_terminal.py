"""Whatever verb shows foreign text: no control character reaches the terminal."""

import json
import re
from pathlib import Path

import pytest

from tests.command import kgqa, program
from tests.project import write_tables
from tests.runs import make_run

# A clear screen (ESC), the same in one C1 character, a window title (OSC), reversed writing, a line of one's own.
EVIL = "A\x1b[2J\x9b31m\x1b]0;owned\x07\u202egnp\u2066\x7f"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069]")


def printed(said: str) -> str:
    """What was printed; fails when any of it could steer a terminal."""
    assert "Traceback" not in said, said
    found = STEERING.search(said)
    assert found is None, f"{said[max(found.start() - 80, 0) : found.end() + 20]!r}"
    return said


def say(*arguments: object) -> str:
    """Everything that a verb prints."""
    done = kgqa(*arguments, code=None)
    return printed(done.stdout + done.stderr)


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, whose every text is hostile, and a run of it up to its report."""
    folder = tmp_path_factory.mktemp("terminal")
    edges = [(f"N{a}", f"N{b}", EVIL) for a in range(12) for b in range(a)]
    write_tables(folder, [(f"N{n}", f"{EVIL} {n}", EVIL) for n in range(12)], edges)
    graph = {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"}
    config = {"graph": graph, "anchors": {"per_shape": 2}, "engine": {"kind": "scripted"}}
    (folder / "run.yaml").write_text(json.dumps(config))
    done = program("all", folder / "run.yaml", folder / "run")
    printed(done.stdout + done.stderr)
    return folder


VERBS = (
    "kg stats RUN",
    "kg show RUN N1",
    "kg find RUN A",
    "show RUN",
    "show RUN --rejected",
    "show RUN --lost",
)
VERBS += ("status RUN", "plan RUN", "merge RUN", "explain RUN ID")


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_shows_no_control_character_of_a_graph(evil: Path, verb: str, form: tuple[str, ...]) -> None:
    ids = [json.loads(line)["id"] for line in (evil / "run/dataset/accepted.jsonl").open()]
    said = say(*({"RUN": evil / "run", "ID": ids[0]}.get(word, word) for word in verb.split()), *form)
    if verb == "kg show RUN N1" and form:
        assert json.loads(said)["name"].endswith("\x7f 1"), "what is escaped is kept"
    if form:
        json.loads(said[said.index("{") if said.lstrip()[0] == "{" else said.index("[") :])


def test_output_is_utf_8_in_every_locale(evil: Path) -> None:
    (record, *_) = map(json.loads, (evil / "run/dataset/accepted.jsonl").open())
    words = "explain", evil / "run", record["id"]
    assert program(*words, PYTHONIOENCODING="ascii").stdout == kgqa(*words).stdout
    assert "─" in kgqa(*words).stdout


@pytest.mark.parametrize("bad", ["header", "id", "type"])
def test_an_error_about_foreign_text_is_plain(tmp_path: Path, bad: str) -> None:
    header = f"{EVIL},name,type" if bad == "header" else "id,name,type"
    (tmp_path / "nodes.csv").write_text(f'{header}\n"N1{EVIL}",x,y\n"N1{EVIL}",x,z\n')
    source = f'"{EVIL}"' if bad == "id" else "N2"
    (tmp_path / "edges.csv").write_text(f"source_id,target_id,type\n{source},N1,r\n")
    say("count", "--nodes", tmp_path / "nodes.csv", "--edges", tmp_path / "edges.csv")


@pytest.mark.parametrize("verb", ["init", "status", "explain", "show", "run", "gasl check", "mentions"])
def test_an_error_about_a_hostile_file_or_word_is_plain(tmp_path: Path, verb: str) -> None:
    (tmp_path / "a.yaml").write_text(f'"{EVIL[:1]}\\e[2J": 1\nengine: {{kind: "\\e]0;x\\a"}}\n')
    (tmp_path / "a.gasl").write_text(f"FIND {EVIL} ;;; {EVIL}\n")
    arguments = {
        "init": ["init", tmp_path / "a.yaml", tmp_path / "run"],
        "gasl check": ["gasl", "check", tmp_path / "a.gasl"],
        "explain": ["explain", make_run(tmp_path / "made", 2).path, EVIL],
        "mentions": ["mentions", tmp_path / "a.gasl", "--names", tmp_path / "a.yaml"],
    }
    say(*arguments.get(verb, [verb, tmp_path / EVIL.replace("\x00", "")]))


@pytest.mark.plugin("literature")
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_mentions_and_search_of_hostile_documents_are_plain(tmp_path: Path, form: tuple[str, ...]) -> None:
    document = {"id": EVIL, "title": f"BRCA1 {EVIL}", "text": f"BRCA1 binds {EVIL} BRCA1."}
    (tmp_path / "d.jsonl").write_text(json.dumps(document) + "\n")
    (tmp_path / "names.tsv").write_text("protein_name\tgene_names\nbreast cancer protein\tBRCA1\n")
    assert "BRCA1" in say("mentions", tmp_path / "d.jsonl", "--names", tmp_path / "names.tsv", *form)
    say("index", "build", tmp_path / "index", tmp_path / "d.jsonl", "--shards", 1)
    say("index", "search", tmp_path / "index", "BRCA1", *form)
