"""`plugins: [file.py]`: entries without packaging, copied into the run and pinned by digest."""

import json
import os
from pathlib import Path

import pytest

from kgqa_hpc.registry import FILE_ENTRIES
from tests.command import kgqa
from tests.dataset.conftest import records_of
from tests.project import edit, write_project

CONFIG = """
plugins: [my_steps.py]
graph: {source: csv, nodes: nodes.csv, edges: edges.csv}
anchors: {kind: graphlet, per_shape: 2, shapes: [1]}
engine: {kind: echo, word: "Alpha comes before beta in this list."}
passes: [{name: main, steps: [generate, length]}]
dataset: {z_score: null}
"""
FILE = '''
import json
from typing import Literal

import kgqa_hpc
from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response


@kgqa_hpc.step(columns={"letters": "int64"})
def length(item):
    """Letters of the answer."""
    return {"letters": len(item.output["answer"])}


class Lines:
    """A line for each record."""

    name = "one-liners"

    def write(self, source, folder):
        text = "".join(f"{record['question']}\\n" for record in source.records("train"))
        (folder / "all.txt").write_text(text)


@kgqa_hpc.section
def longest_question(dataset):
    """The longest question."""
    return f"<p class='mine'>{max((len(r['question']) for r in dataset.records('train')), default=0)} letters</p>"


@kgqa_hpc.metric
def same_length(predictions, references):
    """Whether prediction and reference are as long."""
    return [float(len(p) == len(r)) for p, r in zip(predictions, references)]


class EchoSettings(EngineSettings):
    kind: Literal["echo"] = "echo"
    word: str


class Echo:
    """Answers one word."""

    name = "echo"
    Settings = EchoSettings

    def __init__(self, settings, memory=None):
        self.word = settings.word
        self.info = EngineInfo(name="echo", version="1", model="echo-1", max_batch=8)

    def preflight(self, schemas):
        pass

    def generate(self, mailbox):
        for request in mailbox:
            fields = request.schema["properties"]
            examples = {"array": [], "boolean": True, "string": self.word}
            answer = {name: examples[field["type"]] for name, field in fields.items()}
            question = f"Which comes first in the list of {request.id}?"
            yield Response(request.id, json.dumps({**answer, "question": question}), "stop")

    def close(self):
        pass
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_project(tmp_path, CONFIG, nodes=30, edges=60)
    (tmp_path / "my_steps.py").write_text(FILE)
    return tmp_path


def letters(folder: Path) -> set[int]:
    return {record["letters"] for record in records_of(folder / "run/dataset")}


def init(folder: Path, *words: str, code: int = 2) -> str:
    return kgqa("init", folder / "run.yaml", folder / "run", *words, code=code).stderr


def test_entries_of_a_file_run_to_the_dataset_its_card_its_report_and_an_export(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    assert letters(folder) == {37}
    assert (folder / "run/plugins/my_steps.py").read_text() == FILE
    assert "| my_steps.py | source sha256 " in (folder / "run/dataset/README.md").read_text()
    page = (folder / "run/report/index.html").read_text()
    assert "<h2 id=\"section-longest_question\">The longest question</h2>\n<p class='mine'>" in page
    FILE_ENTRIES.clear()
    kgqa("export", folder / "run", "--to", "one-liners", "--out", folder / "out")
    assert (folder / "out/all.txt").read_text()


def test_entries_of_a_file_are_listed_with_the_file(folder: Path) -> None:
    names = {
        "steps": "length",
        "exports": "one-liners",
        "sections": "longest_question",
        "metrics": "same_length",
    }
    for kind, name in names.items():
        lines = kgqa("list", kind, "--plugin", folder / "my_steps.py").stdout.splitlines()
        assert [line for line in lines if line.startswith(name) and line.endswith("[my_steps.py]")]


def test_a_section_that_fails_is_one_line_with_its_name(folder: Path) -> None:
    edit(folder / "my_steps.py", 'return f"<p', 'return 1 / 0 or f"<p')
    refused = kgqa("all", folder / "run.yaml", folder / "run", code=2).stderr
    assert "report section longest_question of my_steps.py failed: ZeroDivisionError" in refused


def test_a_file_edited_within_a_second_is_loaded_as_it_is(folder: Path) -> None:
    file = folder / "my_steps.py"
    times = file.stat()
    for name in ("lines_a", "lines_b"):
        file.write_text(FILE.replace("same_length", name))
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert name in kgqa("list", "metrics", "--plugin", file).stdout
    assert not (folder / "__pycache__").exists()


@pytest.mark.plugin("evaluation")
def test_a_metric_of_a_file_is_scored_beside_the_others(folder: Path) -> None:
    for name, text in (("given", "ab"), ("wanted", "cd")):
        (folder / f"{name}.jsonl").write_text(json.dumps({"id": "1", "text": text}) + "\n")
    words = ("score", folder / "given.jsonl", folder / "wanted.jsonl", "--plugin", folder / "my_steps.py")
    scores = json.loads(kgqa(*words, "--json").stdout)
    assert scores["same_length"] == 1.0
    assert scores["rouge1"] == 0.0
    for value in ("nan", "inf"):
        edit(folder / "my_steps.py", "return [float", f"return [float('{value}') or float")
        refused = kgqa(*words, code=2).stderr
        assert f"score metric same_length of my_steps.py gave {value} for the pair '1'" in refused
        edit(folder / "my_steps.py", f"float('{value}') or ", "")
    for value in (None, "0.5"):
        edit(folder / "my_steps.py", "return [float", f"return [{value!r} for _ in predictions] or [float")
        assert f"same_length of my_steps.py gave {value!r} for the pair '1'" in kgqa(*words, code=2).stderr
        edit(folder / "my_steps.py", f"[{value!r} for _ in predictions] or ", "")
    edit(folder / "my_steps.py", "return [float", "return [1e308 for _ in predictions] or [float")
    for file in ("given", "wanted"):
        (folder / f"{file}.jsonl").write_text('{"id": "1", "text": "ab"}\n{"id": "2", "text": "ab"}\n')
    assert json.loads(kgqa(*words, "--json").stdout, parse_constant=pytest.fail)["same_length"] is None
    edit(folder / "my_steps.py", "return [1e308 for _ in predictions] or [float", "return 2 * [float")
    assert "score metric same_length of my_steps.py gave values of shape (4,)" in kgqa(*words, code=2).stderr


def test_a_run_goes_on_with_its_own_copy_where_the_file_is_gone(folder: Path) -> None:
    kgqa("init", folder / "run.yaml", folder / "run")
    (folder / "my_steps.py").unlink()
    FILE_ENTRIES.clear()
    for verb in ("import", "sample", "run", "merge"):
        kgqa(verb, folder / "run")
    assert letters(folder) == {37}


def test_an_edited_file_is_refused_and_named_until_its_code_is_accepted(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    edit(folder / "my_steps.py", "len(item", "2 * len(item")
    refused = init(folder)
    assert "entries.my_steps.py.source" in refused
    assert "--accept-changed-code" in refused
    kgqa("run", folder / "run", code=2)
    init(folder, "--accept-changed-code", code=0)
    manifest = json.loads((folder / "run/manifest.json").read_text())
    assert list(manifest["earlier_entries"][0]) == ["my_steps.py"]
    kgqa("merge", folder / "run")
    assert "parts of the run were made with source sha256" in (folder / "run/dataset/README.md").read_text()


def test_another_change_beside_the_code_is_not_accepted_with_it(folder: Path) -> None:
    kgqa("all", folder / "run.yaml", folder / "run")
    edit(folder / "my_steps.py", "len(item", "2 * len(item")
    (folder / "run.yaml").write_text("seed: 8\n" + CONFIG)
    assert "sampling.seed" in init(folder, "--accept-changed-code")


def test_a_copy_in_the_run_that_was_edited_is_never_executed(folder: Path) -> None:
    kgqa("init", folder / "run.yaml", folder / "run")
    copy = folder / "run/plugins/my_steps.py"
    copy.write_text(f"raise SystemExit('executed')\n{FILE}")
    for verb in ("import", "merge"):
        assert "my_steps.py: was changed since this run was made" in kgqa(verb, folder / "run", code=2).stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "holds no entry"),
        ("import json\n1 / 0\n", "my_steps.py line 2: ZeroDivisionError"),
        ("import json\njson.loads('{')\n", "my_steps.py line 2: JSONDecodeError"),
        ("def f(:\n", "my_steps.py line 1: SyntaxError"),
        (FILE.replace("def length", "def judge"), "kgqa_hpc has one of steps named 'judge' already"),
        (None, "No such file"),
    ],
)
def test_an_unusable_file_is_one_line_with_its_place(folder: Path, text: str | None, words: str) -> None:
    path = folder / "my_steps.py"
    path.unlink() if text is None else path.write_text(text)
    assert words in init(folder)
    assert not (folder / "run").exists()


def test_a_function_that_rejects_is_counted_under_its_name(folder: Path) -> None:
    edit(folder / "my_steps.py", "    return {", "    return kgqa_hpc.Reject('too short')\n    return {")
    kgqa("all", folder / "run.yaml", folder / "run")
    counts = json.loads((folder / "run/dataset/accounting.json").read_text())
    assert counts["rejected"] == {"length: too short": counts["sampled"]}


SOURCE = '''
from kgqa_hpc.kg.settings import SourceSettings


class Films:
    """Films."""

    name = "films"
    Settings = SourceSettings
    licence = "CC0-1.0"
    description = "Films."

    def read(self, settings):
        BODY
'''


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("pass", "source films of my_steps.py: read() returned None"),
        ("return 1 / 0", "source films of my_steps.py failed: ZeroDivisionError"),
        ("raise SystemExit(0)", "source films of my_steps.py failed: SystemExit: 0 (my_steps.py line 14)"),
        ("import json; json.loads('x')", "line 1 column 1 (char 0) (my_steps.py line 14)"),
    ],
)
def test_a_source_that_reads_no_graph_is_one_line_with_its_file(folder: Path, body: str, words: str) -> None:
    (folder / "my_steps.py").write_text(SOURCE.replace("BODY", body))
    config = "plugins: [my_steps.py]\ngraph: {source: films}\nengine: {kind: scripted}\n"
    (folder / "run.yaml").write_text(config)
    assert words in kgqa("all", folder / "run.yaml", folder / "run", code=2).stderr


def test_what_an_entry_prints_is_no_part_of_the_result(folder: Path) -> None:
    edit(folder / "my_steps.py", 'return f"<p', 'return print("aside") or f"<p')
    done = kgqa("all", folder / "run.yaml", folder / "run")
    assert "aside" in done.stderr
    assert "aside" not in done.stdout


def test_an_export_that_fails_is_one_line_with_its_file(folder: Path) -> None:
    edit(folder / "my_steps.py", 'source.records("train")', "nowhere")
    kgqa("all", folder / "run.yaml", folder / "run")
    refused = kgqa("export", folder / "run", "--to", "one-liners", "--out", folder / "out", code=2).stderr
    assert "export format one-liners of my_steps.py failed: NameError: name 'nowhere'" in refused
    assert not (folder / "out").exists()
