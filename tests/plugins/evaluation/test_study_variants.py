"""Anything that can vary is a variant of a study: the model, how it samples, what it is shown, what it is asked of."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.config.variants import changes
from kgqa_hpc.dataset.explain import explain
from kgqa_hpc.errors import ConfigError
from kgqa_hpc.plugins.evaluation.records import records
from kgqa_hpc.plugins.evaluation.study import study
from kgqa_hpc.runs import open_run
from kgqa_hpc.runs.chain import build_chain, kind_of
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.variants import with_variants
from kgqa_hpc.store.shards import AnchorsFile
from tests.project import write_graph
from tests.prompts.test_published import ANCHOR
from tests.record_runs import jsonl, written

JUDGE = {"kind": "scripted", "model": "judge-1"}
SCORES = [{"use": "score", "as": "sound", "prompt": "study_question_accurate", "unreadable": 0}]
PASSES = [{"name": "write", "steps": ["generate"]}, {"name": "score", "engine": JUDGE, "steps": SCORES}]


def config_of(**sections: Any) -> dict[str, Any]:
    return {
        "graph": {"source": "csv", "nodes": "nodes.csv", "edges": "edges.csv"},
        "anchors": {"kind": "graphlet", "per_shape": 2, "shapes": [1, 2, 3]},
        "engine": {"kind": "scripted", "model": "writer-1"},
        "passes": PASSES,
        "runtime": {"shard_size": 4},
        **sections,
    }


def do_study(folder: Path, **sections: Any) -> dict[str, Any]:
    write_graph(folder)
    return study(written(folder / "study.yaml", config_of(**sections)), folder / "run")


def requests(variants: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """The first request about the same anchor under each variant, by its name."""
    config = parse_config(config_of(variants=variants, **sections), "t")
    chain = build_chain(config, config.passes[0].name)
    return {
        item.anchor.data["variant"]: chain[0].request(item, 0)
        for item in map(Item, with_variants([ANCHOR], list(config.variant_configs())))
    }


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("models")
    return folder, do_study(folder, variants={"write.engine.model": ["small", "group/large"]})


def test_models_are_compared_on_the_same_anchors_each_by_its_own_pass_and_judged_by_one(
    models: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = models
    assert [row["variant"] for row in document["variants"]] == ["small", "large"]
    assert document["paired"] is True
    assert document["anchors"] == 6
    by_variant: dict[str, set[str]] = {"small": set(), "large": set()}
    for record in records(folder / "run"):
        anchor, _, variant = record["id"].rpartition("~")
        assert record["variant"] == variant
        engines = record["provenance"]["engine"]
        assert engines["generate"]["model"] == {"small": "small", "large": "group/large"}[variant]
        assert engines["sound"]["model"] == "judge-1"
        by_variant[variant].add(anchor)
    assert by_variant["small"] == by_variant["large"]
    story = explain(folder / "run", f"{min(by_variant['small'])}~large")
    assert [request["messages"] is not None for request in story["requests"]] == [True, True]
    passes = sorted(path.name for path in (folder / "run" / "results").iterdir())
    assert passes == ["score", "write-large", "write-small"]


def test_a_study_of_models_goes_on_in_its_folder_adds_nothing_and_keeps_a_variants_items_together(
    models: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = models
    results = {p: p.stat().st_mtime_ns for p in (folder / "run" / "results").rglob("*.h5")}
    assert study(folder / "study.yaml", folder / "run") == document
    assert {p: p.stat().st_mtime_ns for p in (folder / "run" / "results").rglob("*.h5")} == results
    with AnchorsFile(open_run(folder / "run")[0].anchors) as anchors:
        order = [anchor["data"]["variant"] for anchor in anchors.rows()]
    assert order == ["small"] * 6 + ["large"] * 6


def test_anchor_kinds_have_anchors_of_their_own_and_are_compared_unpaired(tmp_path: Path) -> None:
    paths = {"anchors": {"kind": "path", "number": 9}, "write.steps": [{"use": "word", "prompt": "path"}]}
    document = do_study(tmp_path, variants={"graphlets": {"write.steps": ["generate"]}, "paths": paths})
    assert document["paired"] is False
    assert {row["variant"]: row["items"] for row in document["variants"]} == {"graphlets": 6, "paths": 9}
    (comparison,) = document["comparisons"]
    assert comparison["p_paired"] is None
    assert 0 <= comparison["p_holm"] <= 1
    kinds = {record["id"].rpartition("~")[2]: record["kind"] for record in records(tmp_path / "run")}
    assert kinds == {"graphlets": "graphlet", "paths": "path"}
    parts = (tmp_path / "run" / "dataset").glob("accepted-*.parquet")
    rows = [row for part in parts for row in pq.read_table(part).to_pylist()]
    graphlets = {row["variant"]: row["graphlet_id"] is not None for row in rows}
    assert graphlets == {"graphlets": True, "paths": False}
    text = (tmp_path / "run" / "study" / "study.md").read_text()
    assert "each its own anchors, so nothing is paired" in text


def test_temperature_edge_types_and_the_sampling_of_an_engine_vary() -> None:
    warm = requests({"temperature": [0, 0.6]})
    temperatures = {name: request.temperature for name, request in warm.items()}
    assert temperatures == {"temperature-0": 0.0, "temperature-0.6": 0.6}
    shown = requests({"prompts.edge_types": [True, False]})
    edge_type = ANCHOR.relations[0].type
    present = {name: edge_type in request.messages[-1]["content"] for name, request in shown.items()}
    assert present == {"edge_types-True": True, "edge_types-False": False}
    engine = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:1/v1"}
    variants = {"write.engine.generation.top_p": [0.5, 0.9]}
    config = parse_config(config_of(engine=engine, variants=variants), "t")
    assert [entry.engine.generation.top_p for entry in config.passes[:2]] == [0.5, 0.9]
    assert [entry.variant for entry in config.passes] == ["top_p-0.5", "top_p-0.9", None]
    assert parse_config(config.plain(), "as the run keeps it") == config


def test_kinds_of_a_study_make_one_family_and_a_single_kind_stays_itself() -> None:
    paths = {"anchors": {"kind": "path"}, "write.steps": [{"use": "word", "prompt": "path"}]}
    both = parse_config(config_of(variants={"g": {"write.steps": ["generate"]}, "p": paths}), "t")
    kind = kind_of(both)
    assert kind.name == "graphlet+path"
    assert {"graphlet_id", "steps_hold"} <= {column.name for column in kind.columns}
    assert kind_of(parse_config(config_of(), "t")).name == "graphlet"


def test_files_of_variants_lie_where_the_configuration_lies(tmp_path: Path) -> None:
    names = ["a.jsonl", "b.jsonl"]
    for name in names:
        jsonl(tmp_path / name, [{"id": "1", "question": "q?", "answer": "a."}])
    document = config_of(anchors={"kind": "records", "from": "a.jsonl"}, variants={"anchors.from": names})
    found = load_config(written(tmp_path / "study.yaml", document)).variant_configs()
    sources = {name: one.anchors.source for name, one in found.items()}
    assert sources == {name: str(tmp_path / name) for name in names}


TOGETHER = [{"name": "all", "steps": ["generate", *SCORES]}]


@pytest.mark.parametrize(
    ("variants", "passes", "word"),
    [
        ({"engine.model": ["a", "b"]}, TOGETHER, "writer and judge apart"),
        ({"prompt": ["p1_1"]}, TOGETHER, "two values"),
        ({"prompt": ["p1_1", "p1_1"]}, TOGETHER, "different"),
        ({"prompt": ["p1_1", "a~b"]}, TOGETHER, "letters"),
        ({"colour": ["a", "b"]}, TOGETHER, "no step"),
        ({"nobody.prompt": ["a", "b"]}, TOGETHER, "no step"),
        ({"sound.minimum": ["high", "low"]}, TOGETHER, "variants"),
        ({"prompt": ["p1_1", "p5"], "sound.minimum": [1, 2]}, TOGETHER, "one setting"),
        ({"nobody.engine.model": ["a", "b"]}, PASSES, "no pass"),
        ({"write.engine.modle": ["a", "b"]}, PASSES, "did you mean model"),
        ({"write.engine": [{"model": "a"}, {"model": "b"}]}, PASSES, "need names"),
        ({"anchors.per_shap": [1, 2]}, PASSES, "did you mean per_shape"),
        ({"a": {"prompt": "p5"}, "b": ["p1_1"]}, PASSES, "name one setting"),
        ({"graph.min_degree": [1, 2]}, PASSES, "no step"),
    ],
)
def test_variants_that_cannot_be_compared_are_refused_with_their_cure(
    variants: dict[str, Any], passes: list[Any], word: str
) -> None:
    with pytest.raises(ConfigError, match=word):
        parse_config(config_of(variants=variants, passes=passes), "t")


def test_a_text_is_its_own_name_without_the_folder_before_it() -> None:
    assert list(changes({"engine.model": ["org/a-7b", "b.gguf"]})) == ["a-7b", "b.gguf"]
    assert list(changes({"temperature": [0, 0.5]})) == ["temperature-0", "temperature-0.5"]
