"""A run from Python: objects in, the same run as a configuration makes, and changes that are refused whole."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import networkx
import pandas as pd
import pytest
import yaml

import kgqa_hpc
from kgqa_hpc.errors import ConfigError, FingerprintMismatch, InputError
from kgqa_hpc.run import Run
from kgqa_hpc.store.run_folder import RunFolder

NODES = pd.DataFrame({"id": range(12), "name": [f"node {n}" for n in range(12)], "type": "thing"})
EDGES = pd.DataFrame(
    [(a, b, "touches") for a in range(12) for b in range(a + 1, 12) if (a * b + a + b) % 3 != 1],
    columns=["source_id", "target_id", "type"],
)
ANCHORS = {"per_shape": 2, "shapes": [1, 2]}


def answer(
    messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any] | None, seed: int
) -> dict[str, Any]:
    examples: dict[str, Any] = {"string": "Node 1 touches node 2.", "boolean": True, "array": []}
    assert schema is not None
    return {name: examples[part["type"]] for name, part in schema["properties"].items()}


def _run(folder: Path, **changes: Any) -> Run:
    settings: dict[str, Any] = {
        "graph": {"nodes": NODES, "edges": EDGES, "min_degree": 0},
        "anchors": ANCHORS,
        "steps": ["generate", "judge"],
        "engine": kgqa_hpc.Scripted(accept=1.0),
        "prompts": {"domain": "general"},
    }
    return Run(folder, **{**settings, **changes})


def test_frames_a_function_and_objects_become_a_dataset(tmp_path: Path) -> None:
    run = _run(
        tmp_path / "run",
        anchors=kgqa_hpc.Graphlets(**ANCHORS),
        steps=[kgqa_hpc.Generate("p5"), kgqa_hpc.Judge("filter")],
        engine=answer,
        dataset={"duplicates": None},
    )
    assert run.preview(1).to_pandas()["answer"].tolist() == ["Node 1 touches node 2."]
    assert not run.path.exists()
    assert run.work().merge().total.accepted == 4
    frame = run.dataset.to_pandas()
    assert frame["question"].tolist() == ["Node 1 touches node 2."] * 4
    assert frame["provenance"][0]["engine"]["generate"]["model"] == "answer"


def test_a_networkx_graph_gives_names_and_types_as_its_graphml_does(tmp_path: Path) -> None:
    graph = networkx.MultiDiGraph()
    graph.add_node("d1", label="aspirin", category="drug")
    graph.add_node("p1", title="COX-1", kind="protein")
    graph.add_edge("d1", "p1", key="inhibits")
    graph.add_edge("d1", "p1", relation="binds")
    graph.add_edge("p1", "x", predicate="part of")
    run = _run(tmp_path / "run", graph={"source": graph, "min_degree": 0})
    assert run.config.graph.min_degree == 0
    inputs = run.create().path / "inputs"
    nodes = pd.read_csv(inputs / "nodes.csv").set_index("id")
    assert nodes.loc["d1", ["name", "type"]].tolist() == ["aspirin", "drug"]
    assert nodes.loc["p1", ["name", "type"]].tolist() == ["COX-1", "protein"]
    assert nodes.loc["x", ["name", "type"]].tolist() == ["x", "entity"]
    assert pd.read_csv(inputs / "edges.csv")["type"].tolist() == ["inhibits", "binds", "part of"]


def test_a_function_judges_a_finished_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = _run(Path("run")).work()
    run.judge("filter", name="second", engine=answer)
    run.merge()
    (model,) = {record["provenance"]["engine"]["second"]["model"] for record in run.dataset.records()}
    assert model == "answer"


def _replying(reply: Any) -> Any:
    def closing(messages: Any, schema: Any, seed: int) -> Any:
        return reply

    def with_default(messages: Any, schema: Any, seed: int, reply: Any = reply) -> Any:
        return reply

    class Model:
        def __init__(self) -> None:
            self.reply = reply

        def bound(self, messages: Any, schema: Any, seed: int) -> Any:
            return self.reply

        __call__ = bound

    model = Model()
    functions = (closing, with_default, model.bound, model, partial(closing), partial(answer, reply))
    names = ("closure", "default", "method", "object", "partial", "argument")
    return dict(zip(names, functions, strict=True))


@pytest.mark.parametrize("kind", list(_replying(0)))
def test_a_function_with_another_value_is_another_engine(kind: str, tmp_path: Path) -> None:
    def run(reply: Any) -> Run:
        return _run(tmp_path / "run", engine=_replying(reply)[kind]).create()

    digest = run({"yes", "maybe"}).manifest().digest
    (tmp_path / "run" / "results").mkdir()  # a run with answers takes no other configuration
    assert run({"maybe", "yes"}).manifest().digest == digest
    with pytest.raises(FingerprintMismatch, match="engine"):
        run({"yes", "no"})


def test_a_saved_function_has_one_name_in_every_process() -> None:
    program = """
from kgqa_hpc.settings_objects import engine_section
from pathlib import Path
from tests.test_run import _replying
print(*(engine_section(f, {})["call"] for f in _replying([{"a", "b", "c"}, Path("x"), _replying]).values()))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    names = [
        subprocess.check_output([sys.executable, "-c", program], env={**environment, "PYTHONHASHSEED": seed})
        for seed in "12"
    ]
    assert names[0] == names[1]


def test_a_run_works_in_a_thread_of_a_program(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        counts = pool.submit(lambda: _run(tmp_path / "run").work().merge()).result()
    assert counts.total.sampled == 4
    assert (tmp_path / "run" / "dataset" / "accepted.jsonl").is_file()


def test_objects_and_a_file_make_runs_of_one_fingerprint(tmp_path: Path) -> None:
    NODES.to_csv(tmp_path / "nodes.csv", index=False)
    EDGES.to_csv(tmp_path / "edges.csv", index=False)
    files = {name: str(tmp_path / f"{name}.csv") for name in ("nodes", "edges")}
    config = {
        "seed": 5,
        "graph": {"source": "csv", **files, "min_degree": 0},
        "anchors": ANCHORS,
        "engine": {"kind": "scripted", "accept": 1.0},
        "passes": [{"name": "main", "steps": ["generate", "judge"]}],
        "prompts": {"domain": "general"},
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    made = [
        Run.from_config(tmp_path / "run.yaml", tmp_path / "file"),
        Run.from_config(config, str(tmp_path / "mapping")),
        _run(tmp_path / "objects", seed=5),
    ]
    assert len({run.create().manifest().digest for run in made}) == 1


def test_another_graph_in_memory_is_refused_once_work_was_done(tmp_path: Path) -> None:
    _run(tmp_path / "run").create()
    other = {"nodes": NODES, "edges": EDGES[:-1], "min_degree": 0}
    _run(tmp_path / "run", graph=other).work()
    with pytest.raises(FingerprintMismatch, match="another graph"):
        _run(tmp_path / "run").work()
    _run(tmp_path / "run", graph=other).work()


def test_a_function_with_bound_arguments_is_an_engine(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", engine=partial(answer), dataset={"duplicates": None})
    assert run.work().merge().total.accepted == 4


def test_a_function_that_fails_costs_its_items_and_not_the_run(tmp_path: Path) -> None:
    def broken(messages: Any, schema: Any, seed: int) -> str:
        raise ConnectionError("no such service")

    run = _run(tmp_path / "run", engine=broken).work()
    assert run.merge().total.sampled == 4
    assert run.dataset.accounting["failed"]


@pytest.mark.parametrize("place", ["path", "working folder"])
@pytest.mark.parametrize("module", ["my_model", "my_models.small"])
def test_a_function_of_a_module_is_set_by_its_name(
    module: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (module, module.partition(".")[0]):  # one of another place
        monkeypatch.delitem(sys.modules, name, raising=False)
    file = tmp_path / f"{module.replace('.', '/')}.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text("def answer(messages, schema, seed):\n    return 'no JSON'\n")
    if place == "path":
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        monkeypatch.syspath_prepend(tmp_path)
    else:
        monkeypatch.setenv("PYTHONPATH", os.getcwd(), prepend=":")
        monkeypatch.chdir(tmp_path)
    run = _run(tmp_path / "run", engine={"kind": "function", "call": f"{module}:answer"})
    before = run.create().manifest().digest
    assert run.work().merge().total.invalid
    file.write_text("def answer(messages, schema, seed):\n    return 'other'\n")
    with pytest.raises(FingerprintMismatch, match=r"contents\.call"):
        _run(tmp_path / "run", engine={"kind": "function", "call": f"{module}:answer"}).work()
    assert RunFolder(run.path).manifest().digest == before


def test_what_is_wrong_is_said_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean per_shape"):
        _run(tmp_path / "run", anchors={"per_shap": 3})
    with pytest.raises(ConfigError, match="did you mean per_shape"):
        kgqa_hpc.Graphlets(per_shap=3)
    with pytest.raises(InputError, match="str is not a graph"):
        _run(tmp_path / "run", graph="nodes.csv")
    with pytest.raises(InputError, match="the networkx graph has no edge"):
        _run(tmp_path / "run", graph=networkx.Graph())
    with pytest.raises(AttributeError, match="no Graphlet, did you mean Graphlets"):
        kgqa_hpc.Graphlet(per_shape=3)
    with pytest.raises(InputError, match="no such run folder"):
        Run(tmp_path / "run")
    with pytest.raises(ConfigError, match=r"engine\.model: /none\.gguf does not exist"):
        _run(tmp_path / "run", engine={"kind": "cpu", "model": "/none.gguf"}).create()
    with pytest.raises(InputError, match="a preview of 0 items"):
        _run(tmp_path / "run").preview(0)
    assert not (tmp_path / "run").exists()


def test_a_wrong_change_of_the_dataset_changes_and_merges_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path / "run").work()
    before = (run.path / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=r"dataset: dataset\.split\.bye: unknown key, did you mean by\?"):
        run.merge(**{"split.bye": "nodes"})
    assert (run.path / "config.yaml").read_bytes() == before
    assert not (run.path / "dataset").exists()
    run.merge(**{"split.by": "group", "split.shares": {"train": 0.5, "test": 0.5}})
    assert run.config.dataset.split is not None


def test_the_own_configuration_stays_valid_after_a_judge_and_a_larger_sample(tmp_path: Path) -> None:
    (tmp_path / "strict.md").write_text((Path(__file__).parents[1] / "prompts" / "filter.md").read_text())
    run = _run(tmp_path / "run").work()
    run.judge(tmp_path / "strict.md")
    run.extend(3).work()
    both = {"judges": ["judge", "strict"], "rule": "all"}
    again = _run(tmp_path / "run", dataset={"duplicates": None, "decide": both}).work()
    assert [each.name for each in again.config.passes] == ["main", "strict"]
    assert again.merge().total.sampled == 6
    assert again.config.dataset.duplicates is None
