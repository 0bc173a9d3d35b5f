"""`kgqa gasl` as a user meets it: one JSON object on stdout, the right exit code, never a traceback."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import ConfigError, InputError
from kgqa_hpc.kg.file import write_graph
from kgqa_hpc.plugins.gasl.cli import asking, run_script
from kgqa_hpc.plugins.gasl.graph import read_tables
from kgqa_hpc.plugins.gasl.world import ANSWER_FIELDS, Prompt
from tests import command
from tests.kg.conftest import load_source
from tests.servers import QuietHandler, chat_server, completion

kgqa = partial(command.kgqa, "gasl")


def written(folder: Path, text: str, name: str = "script.gasl") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return written(tmp_path, "FIND nodes WITH type=drug AS drugs\nGENERATE report FROM drugs AS story\n")


@pytest.fixture
def graph(toy_files: Path) -> tuple[str | Path, ...]:
    """The options that name the toy graph."""
    return "--nodes", toy_files / "nodes.csv", "--edges", toy_files / "edges.csv"


def test_run_prints_one_object(script: Path, toy_files: Path, graph: tuple[Path, ...]) -> None:
    done = kgqa("run", script, *graph, "--answers", toy_files / "answers.json", "--json", code=0)
    document = json.loads(done.stdout)
    assert list(document) == ["status", "variables", "steps"]
    assert document["variables"]["story"] == "12 nodes of 5 types"
    failed = kgqa("run", script, *graph, "--json", code=1)
    assert json.loads(failed.stdout)["error"]["kind"] == "model"
    text = kgqa("run", script, *graph, code=1)
    assert "line 2, column 1: model" in text.stderr
    assert text.stdout.endswith("error\n")


def test_a_long_variable_is_cut_on_the_terminal_and_whole_as_json(tmp_path: Path, graph) -> None:
    path = written(tmp_path, f"SET long = {json.dumps(['é'] * 2000)}\nSET short = 1\n")
    long, short, status = kgqa("run", path, *graph, code=0).stdout.splitlines()
    assert len(long) < 1100
    assert long.endswith(" … (whole with --json)")
    assert (short, status) == ("short = 1", "success")
    assert len(json.loads(kgqa("run", path, *graph, "--json", code=0).stdout)["variables"]["long"]) == 2000


def test_run_says_the_field_that_may_have_been_meant(tmp_path: Path, graph) -> None:
    path = written(tmp_path, "FIND nodes WITH typ=gene AS x")
    assert "no item has a field 'typ'; did you mean type?" in kgqa("run", path, *graph, code=1).stderr


def test_check_prints_every_faulty_command(tmp_path: Path) -> None:
    path = written(tmp_path, "FNID nodes\nCOUNT x\nFIND nods\n")
    document = json.loads(kgqa("check", path, "--json", code=2).stdout)
    assert document["status"] == "error"
    errors = [(e["line"], e["column"], e["nearest"]) for e in document["errors"]]
    assert errors == [(1, 1, "FIND"), (3, 6, "NODES")]
    written(tmp_path, "COUNT x\n")
    assert json.loads(kgqa("check", path, "--json", code=0).stdout) == {"status": "success", "errors": []}


def test_a_script_that_cannot_be_read_exits_2_with_its_error(tmp_path: Path, toy_files: Path) -> None:
    path = written(tmp_path, "SET a = 1\nFNID nodes\n")
    graph = {"nodes": toy_files / "nodes.csv", "edges": toy_files / "edges.csv"}
    result, code = run_script(path, **graph)
    assert code == 2
    assert result.to_dict() == {"status": "error", "variables": {}, "steps": [], "error": result.error}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "which graph"),
        ("nodes", "which graph"),
        ("nodes edges graph", "which graph"),
        ("nodes edges engine answers", "do not go together"),
        ("nodes edges script", "cannot be read"),
        ("graph", r"kg\.h5"),
        ("nodes edges answers", "must be an object"),
    ],
)
def test_options_that_do_not_go_together_or_cannot_be_read_are_bad_input(
    script: Path, toy_files: Path, tmp_path: Path, options: str, message: str
) -> None:
    (tmp_path / "list.json").write_text("[1]")
    files = {name: toy_files / f"{name}.csv" for name in ("nodes", "edges")}
    files |= {"script": tmp_path / "nope.gasl", "graph": tmp_path, "answers": tmp_path / "list.json"}
    given = {name: files.get(name, tmp_path / "engine.yaml") for name in options.split()}
    with pytest.raises(InputError, match=message):
        run_script(**{"script": script, **given})


def test_a_run_and_its_tables_are_one_graph(tmp_path: Path, toy_files: Path) -> None:
    script = written(tmp_path, "FIND nodes AS n; FIND edges AS e; COUNT FIND paths DEPTH 2 AS p")
    nodes, edges = toy_files / "nodes.csv", toy_files / "edges.csv"
    write_graph(tmp_path / "kg.h5", load_source("csv", nodes=nodes, edges=edges))
    graphs: Any = {"graph": tmp_path}, {"nodes": nodes, "edges": edges}
    of_run, of_tables = (run_script(script, **graph)[0] for graph in graphs)
    assert of_run.variables == of_tables.variables
    assert of_run.variables["n"][0]["properties"]["year"] == 1975
    assert read_tables(nodes, edges).digest == read_tables(nodes, edges).digest


def test_an_engine_answers_each_prompt(tmp_path: Path) -> None:
    settings = written(tmp_path, "engine: {kind: scripted}\n", "engine.yaml")
    prompts = [Prompt(kind, "name it", "a", {"id": "a"}) for kind in ("PROCESS", "CLASSIFY")]
    prompts.append(Prompt("GENERATE", "one sentence", "*", {"x": 1}, "report"))
    with asking(settings) as ask:
        answers = ask(prompts)
        assert all(isinstance(answer, str) and answer for answer in answers)
        assert list(ask(prompts)) == list(answers)


def test_what_an_engine_fails_to_answer_is_none(tmp_path: Path) -> None:
    settings = written(tmp_path, "kind: scripted\nfaults: {garbage: 1.0}\n", "engine.yaml")
    with asking(settings) as ask:
        assert ask([Prompt("PROCESS", "name it", "a", {"id": "a"})]) == [None]


def test_a_key_that_a_server_echoes_is_in_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOED_KEY", "sk-known-value-0123456789")

    def echo(handler: QuietHandler, body: Any) -> Any:
        said = dict.fromkeys(ANSWER_FIELDS.values(), handler.headers["Authorization"])
        return 200, completion(json.dumps(said)), {}

    with chat_server(echo) as address:
        keys = {"kind": "openai", "model": "m", "base_url": address, "api_key_env": "ECHOED_KEY"}
        text = json.dumps(keys | {"structured": "none"})
        with asking(written(tmp_path, text, "engine.yaml")) as ask:
            assert ask([Prompt("PROCESS", "name it", "a", {"id": "a"})]) == ["Bearer ***"]


@pytest.mark.parametrize("text", ["kind: nope", "- 1", "a: [", "engine: {kind: scripted, speed: 3}"])
def test_settings_that_are_none_are_bad_input(tmp_path: Path, text: str) -> None:
    settings = written(tmp_path, text, "engine.yaml")
    with pytest.raises(ConfigError, match=r"engine\.yaml"), asking(settings):
        pass
