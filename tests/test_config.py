"""A configuration is checked completely: each problem is told in our words with its key; an editor knows the keys."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.anchors.graphlet import GraphletAnchors
from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.config.files import SCHEMA_FILE, examples, json_schema, write_example
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.runs.chain import build_chain
from kgqa_hpc.store.yaml_file import LARGEST, load_yaml, parse_yaml
from tests.command import kgqa

GOOD: dict[str, Any] = {
    "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
    "anchors": {"kind": "graphlet", "per_shape": 6},
    "engine": {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9/v1"},
}
# Key, value, and what the message says behind the key.
WRONG = [
    ("seed", "abc", ": must be a whole number, not abc"),
    ("graph.min_degree", -2, ": must be at least 0, not -2"),
    ("graph.nodes", 5, ": must be a text or a list, not 5"),
    ("graph.edges", ["a.csv", 3], ".1: must be a text, not 3"),
    ("graph.unknown_nodes", "dropp", ": must be error or drop, not dropp"),
    ("graph.min_degre", 2, ": unknown key, did you mean min_degree?"),
    ("anchors.per_shape", "many", ": must be a whole number, not many"),
    ("prompts", 5, ": must be a mapping of keys to values, not 5"),
    ("engine.kind", "scriptd", ": unknown engine 'scriptd', did you mean scripted?"),
    ("engine.model", ["x"], ": must be a text"),
    ("engine.base_url", 5, ": must be a text or a list, not 5"),
    ("engine.temperature", 0.2, ": unknown key: how an answer is drawn stands in the head of each prompt"),
    ("dataset.duplicates", True, ": must be a mapping of keys to values, not true"),
    ("dataset.decide", {"rule": "any"}, ": unknown decision rule 'any'; known: all, majority, at_least"),
    ("dataset.split", {"shares": {"train": 2}}, ".shares.train: must be below 1"),
    ("runtime.attempts", 1.5, ": must be a whole number, not 1.5"),
    ("runtime.shard_size", 0, ": must be at least 1, not 0"),
    ("runtime.margin", "soon", ": is not a duration such as 30s, 15m, 2h or 2-00:00:00"),
    ("runtime.lease", float("inf"), ": must be at most 1000000000.0, not inf"),
    ("runtime.budget", {}, ": has no limit: money, tokens, items or hours"),
    ("runtime.budget", {"money": 5}, ".money: no engine has a price"),
    ("seed", -1, ": must be at least 0, not -1"),
    ("graph", {"source": "csv"}, ".edges: is missing"),
    ("graph", {"source": "graphml"}, ".path: is missing"),
    ("graph", {"source": "graphml", "path": "g", "pathh": "x"}, ".pathh: unknown key, did you mean path?"),
    ("graph", {"source": "orgeano"}, ".source: unknown graph source 'orgeano'"),
    ("graph", {"source": ["csv"]}, ".source: unknown graph source"),
    ("graph", {"path": "x"}, ".path: unknown key"),
    ("graph", "hpo", ": must be a mapping with the key source"),
    ("graph", {"min_degree": 9, "max_degree": 3}, ": min_degree 9 is above max_degree 3"),
    ("anchors", {"max_per_node": 3, "spread": "types"}, ": max_per_node and spread cannot be had together"),
    ("anchors", {"spread": "shapes"}, ".spread: must be types, not shapes"),
    ("anchors", {"max_per_node": 0}, ".max_per_node: must be at least 1, not 0"),
    ("anchors", {"spraed": "types"}, ".spraed: unknown key, did you mean spread?"),
    ("anchors", {"backend": "graph-tool", "method": "structure"}, ": backend graph-tool knows no method"),
    ("passes", [{"name": "a", "steps": ["judge"]}], ".0.steps.0: judge reads question, answer"),
    (
        "passes",
        [{"name": "a", "steps": ["generate"]}, {"name": "a", "steps": ["judge"]}],
        ": pass names must",
    ),
    (
        "passes",
        [{"name": "a", "steps": ["generate", "generate"]}],
        ": two steps are called generate; give one",
    ),
    ("passes", [{"name": "../a", "steps": ["generate"]}], ".0.name: must match"),
    ("passes", [{"name": "p" * 5000, "steps": ["generate"]}], ".0.name: must have at most 100 characters"),
    ("passes", [], ": must have at least 1 entries"),
    (
        "engine",
        {"kind": "scripted", "faults": {"crush": 1}},
        ".faults.crush: unknown key, did you mean crash?",
    ),
    ("engine", {"kind": "scripted", "faults": {"hang": 2}}, ".faults.hang: must be at most 1.0, not 2"),
    ("engine", None, ": is missing"),
]
THEIRS = ("Input should", "valid string", "valid dictionary", "instance of", "[str]", ".str:", "Value error")


def changed(key: str, value: Any) -> dict[str, Any]:
    section, _, name = key.partition(".")
    if not name:
        return {k: v for k, v in {**GOOD, section: value}.items() if v is not None}
    return {**GOOD, section: {**GOOD.get(section, {}), name: value}}


def problems(data: dict[str, Any], where: str = "c.yaml") -> list[str]:
    """The lines in which a configuration is refused."""
    with pytest.raises(ConfigError) as caught:
        parse_config(data, where)
    return caught.value.message.splitlines()


@pytest.mark.parametrize(("key", "value", "told"), WRONG)
def test_a_wrong_value_is_told_with_its_key_and_what_must_be_there(key: str, value: Any, told: str) -> None:
    (line,) = problems(changed(key, value), "mine.yaml")
    assert line.startswith(f"mine.yaml: {key}{told}")
    assert not [word for word in THEIRS if word in line]


def test_null_is_the_default_of_a_key_whose_default_is_empty() -> None:
    for key in ("dataset.decontaminate", "graph.exclude_edge_types", "plugins"):
        data = {**GOOD, key: None} if key == "plugins" else changed(key, None)
        assert parse_config(data, "c.yaml").plain() == parse_config(GOOD, "c.yaml").plain()


def test_all_of_them_are_told_at_once() -> None:
    data, expected = {**GOOD}, []
    for key, value, told in WRONG[:17]:
        if key not in ("prompts", "engine.kind"):
            section, _, name = key.partition(".")
            data[section] = {**data.get(section, {}), name: value} if name else value
            expected.append(key + told)
    lines = problems(data)
    assert [told for told in expected if not any(told in line for line in lines)] == []


@pytest.mark.parametrize("wrong", ["nope", {"use": "check", "nope": 1}, {"use": "check", "reject": ["nope"]}])
def test_the_relations_of_passes_are_checked_although_a_step_is_refused(wrong: object) -> None:
    twice = [{"use": "judge", "as": "j"}] * 2
    main = {"name": "main", "steps": ["judge", *twice, wrong, {"use": "judge", "as": "k"}]}
    message = "\n".join(
        problems(
            {
                "engine": {"kind": "scripted"},
                "passes": [main] * 2,
                "dataset": {"decide": {"judges": ["other"], "rule": "all"}},
            }
        )
    )
    for text in (
        *("c.yaml: passes.0.steps.3", "c.yaml: passes: pass names must differ: main, main"),
        "c.yaml: passes: two steps are called j",
        "c.yaml: passes.0.steps.0: judge reads question, answer, which nothing before it adds",
        "c.yaml: dataset.decide: 'other' is no judge of this run; its judges: judge, j, k",
    ):
        assert text in message
    assert "steps.4" not in message  # the refused step may add its fields


@pytest.mark.parametrize("anchors", [{"kind": "nope"}, {"kind": "graphlet", "per_shape": 0}])
def test_the_relations_of_passes_are_checked_although_the_anchors_are_refused(anchors: object) -> None:
    passes = [{"name": "main", "steps": ["judge", "judge"]}]
    first, *others = problems({"engine": {"kind": "scripted"}, "anchors": anchors, "passes": passes})
    assert first.startswith("c.yaml: anchors.")
    assert [line.partition(";")[0] for line in others] == ["c.yaml: passes: two steps are called judge"]


def test_a_judge_whose_step_is_refused_is_not_told_a_second_time() -> None:
    steps = ["generate", {"use": "judge", "as": "j", "nope": 1}]
    data = {"engine": {"kind": "scripted"}, "passes": [{"name": "main", "steps": steps}]}
    assert len(problems({**data, "dataset": {"decide": {"judges": ["j"], "rule": "all"}}})) == 1


def test_a_study_with_a_target_is_told_beside_its_wrong_variants() -> None:
    data = {"engine": {"kind": "scripted"}, "anchors": {"per_shape": 1}, "target": {"accepted": 5}}
    data |= {"passes": [{"name": "main", "steps": ["generate"]}], "variants": {"nope": [1]}}
    first, second = problems(data)
    assert "variants" in first
    assert "target: a study has none" in second


def test_a_value_that_is_long_or_steers_a_terminal_is_not_repeated() -> None:
    for value in ("x" * 500, "\x1b[2J"):
        assert value not in problems({**GOOD, "seed": value})[0]


def test_a_wrong_key_of_anchors_is_told_without_the_errors_that_follow_from_it() -> None:
    steps = [{"use": "word", "template": "hpo"}]
    data = {"anchors": {"kind": "fact", "numbr": 3}, "passes": [{"name": "main", "steps": steps}]}
    assert problems({**GOOD, **data}) == ["c.yaml: anchors.numbr: unknown key, did you mean number?"]


def test_paths_start_in_the_folder_of_the_file_and_the_resolved_configuration_reads_back_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.yaml").write_text(
        "graph: {source: csv, nodes: n.csv, edges: e.csv}\nengine: {kind: cpu, model: m.gguf}\n"
    )
    config = load_config(tmp_path / "run.yaml")
    assert config.graph.nodes == str(tmp_path / "n.csv")
    assert config.engine.model == str(tmp_path / "m.gguf")
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(config.plain()))
    assert load_config(tmp_path / "again.yaml") == config


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(["seed", "graph", "engine", "kind", "passes", "name", "steps", "x"]),
                c,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_mapping_is_accepted_or_refused_never_a_traceback(data: object) -> None:
    if not isinstance(data, dict):
        data = {"graph": data}
    try:
        parse_config(data, "c")
    except ConfigError as problem:
        assert problem.message.startswith("c: ")


NAMES = [
    name for name, file in examples().items() if file.suffix == ".yaml" and not name.startswith("hydrate_")
]
WAYS = "csv graphml triples records slurm study demo scripted local_a6000 openai_server"
SCHEMA = json_schema()
CHECK = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_schema_and_the_command_prints_it() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(kgqa("config", "--schema").stdout) == SCHEMA


def test_there_is_an_example_for_each_way_to_begin() -> None:
    assert set(NAMES) >= set(WAYS.split())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_valid_fits_its_schema_and_says_how_it_is_run(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    write_example(name, file)
    text = file.read_text("utf-8")
    assert f"# yaml-language-server: $schema={SCHEMA_FILE}\n" in text
    assert "kgqa " in text.split("\nseed:")[0]
    assert name != "csv" or "kgqa preview mine.yaml && kgqa all mine.yaml runs/mine" in text
    assert f" configs/{name}.yaml" not in text
    assert "../runs" not in text
    assert json.loads((tmp_path / SCHEMA_FILE).read_text()) == SCHEMA
    assert [
        f"{error.json_path}: {error.message[:300]}" for error in CHECK.iter_errors(yaml.safe_load(text))
    ] == []
    config = load_config(file)
    assert list(CHECK.iter_errors(config.plain())) == [], "the file in a run folder"
    for entry in config.passes:
        assert [step.name for step in build_chain(config, entry.name)] == [step.use for step in entry.steps]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"engin": {}}, "'engin' was unexpected"),
        ({"runtime": {"shard_size": "many"}}, "$.runtime.shard_size"),
        ({"engine": {"kind": "scriptd"}}, "$.engine"),
        (
            {"passes": [{"name": "main", "steps": [{"use": "generate", "temperatur": 1}]}]},
            "$.passes[0].steps[0]",
        ),
    ],
)
def test_a_mistake_is_marked_where_it_stands(config: dict[str, Any], expected: str) -> None:
    assert any(expected in f"{error.json_path} {error.message}" for error in CHECK.iter_errors(config))


def test_the_example_prompt_works_as_a_prompt_of_a_users_folder(tmp_path: Path) -> None:
    write_example("prompt", tmp_path / "my_prompts" / "mine.md")
    data = {"prompts": {"folder": "my_prompts", "generate": "mine"}, "engine": {"kind": "scripted"}}
    config = parse_config(data, "test", tmp_path)
    (step,) = [step for step in build_chain(config, "main") if step.name == "generate"]
    kind = GraphletAnchors()
    shown = step.prompt.render(kind.variables(kind.sample))[-1]["content"]
    assert kind.sample.nodes[0].name in shown
    assert list(tmp_path.iterdir()) == [tmp_path / "my_prompts"], "no schema beside a prompt"


def test_an_example_replaces_no_file_and_an_unknown_one_is_told_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    assert kgqa("init", "--example", "csv", file).stdout.strip() == str(file)
    file.write_text("seed: 1")
    assert "is there already" in kgqa("init", "--example", "csv", file, code=2).stderr
    assert file.read_text() == "seed: 1"
    assert "did you mean graphml" in kgqa("init", "--example", "graphmll", tmp_path / "x", code=2).stderr


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
HOSTILE = {
    BOMB: "run.yaml line 2: aliases",
    "engine: &e\n  extra_body: *e\n": "run.yaml line 2: aliases",
    "seed: 1\ngraph:\n  path: a\n  path: b\n": "run.yaml line 4: not YAML: the key 'path' stands twice",
    "[" * 20_000: "levels deep",
    "{a: " * 20_000: "levels deep",
    "- " * 20_000 + "x": "levels deep",
    "a: 2024-13-45": "",
    "a: \x1b[31m": "",
    "a: [": "",
    "? [a]\n: b": "",
    "!!python/object:os.x {}": "",
    "a: " + "x" * LARGEST: "KiB",
    "\udcff": "not UTF-8",
}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:20]))
def test_hostile_yaml_is_refused_in_one_line_before_anything_is_built(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text.encode("utf-8", "surrogateescape"), "run.yaml")
    assert HOSTILE[text] in caught.value.message
    assert "\n" not in caught.value.message
    assert "\x1b" not in caught.value.message


def test_what_people_write_is_read_and_a_fifo_is_not_opened(tmp_path: Path) -> None:
    assert parse_yaml(b"seed: 1\npasses:\n  - name: main\n    steps: [a, {use: b}]\n", "x") == {
        "seed": 1,
        "passes": [{"name": "main", "steps": ["a", {"use": "b"}]}],
    }
    os.mkfifo(tmp_path / "c.yaml")
    with pytest.raises(ConfigError, match="not a regular file"):
        load_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    "wrong",
    [
        {"engine": {"kind": "openai", "model": "~no-such-user"}},
        {"plugins": ["~no-such-user/steps.py"]},
        {"prompts": {"folder": "~no-such-user"}},
        {"graph": {"source": "graphml", "path": "~no-such-user"}},
    ],
)
def test_the_home_of_an_unknown_user_is_a_missing_path(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"engine": {"kind": "scripted"}, **wrong}))
    told = kgqa("init", tmp_path / "run.yaml", tmp_path / "run", code=2).stderr
    assert "~no-such-user" in told
    assert "Traceback" not in told
