"""A configuration is checked completely, and every problem names its key."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.config import load_config, parse_config
from kgqa_hpc.errors import ConfigError

MINIMAL = {"engine": {"kind": "scripted"}}


def _write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"runtime.margin: .*is not a duration"):
        parse_config({**MINIMAL, "runtime": {"margin": "soon"}}, "c")


def test_all_errors_of_a_file_are_reported_at_once_with_their_keys(tmp_path: Path) -> None:
    path = _write(
        tmp_path,
        "seed: -1\ngraph: {min_degre: 3}\nanchors: {per_shape: many}\nengine: {kind: cpu, modl: x}\n",
    )
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = caught.value.message
    for expected in (
        "seed: ",
        "graph.min_degre: unknown key, did you mean min_degree?",
        "anchors.per_shape: ",
        "engine.modl: unknown key, did you mean model?",
    ):
        assert expected in message
    assert caught.value.exit_code == 2


def test_an_unknown_top_level_key_names_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"anchor: unknown key, did you mean anchors\?"):
        parse_config({**MINIMAL, "anchor": {}}, "c")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"source": "csv"}, "needs edges"),
        ({"source": "graphml"}, "needs path"),
        ({"min_degree": 9, "max_degree": 3}, "min_degree 9 is above max_degree 3"),
    ],
)
def test_a_graph_section_that_cannot_work_is_refused(graph: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config({**MINIMAL, "graph": graph}, "c")


@pytest.mark.parametrize(
    "passes",
    [
        [{"name": "a", "steps": ["judge"]}],
        [{"name": "a", "steps": ["generate"]}, {"name": "a", "steps": ["judge"]}],
        [{"name": "a", "steps": ["generate", "generate"]}],
        [{"name": "../a", "steps": ["generate"]}],
        [],
    ],
)
def test_passes_that_make_no_sense_are_refused(passes: list[object]) -> None:
    with pytest.raises(ConfigError):
        parse_config({**MINIMAL, "passes": passes}, "c")


def test_a_missing_engine_is_said_plainly() -> None:
    with pytest.raises(ConfigError, match="engine"):
        parse_config({}, "c")


@pytest.mark.parametrize("text", ["", "- a\n", "a: [", "\t:", "\x00"])
def test_a_file_that_is_no_mapping_is_one_clear_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        load_config(_write(tmp_path, text))


def test_a_missing_file_says_where_examples_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_config(tmp_path / "none.yaml")


def test_paths_are_resolved_against_the_folder_of_the_file(tmp_path: Path) -> None:
    text = "graph: {source: csv, nodes: n.csv, edges: e.csv}\nengine: {kind: cpu, model: m.gguf}\n"
    config = load_config(_write(tmp_path, text))
    assert config.graph.nodes == str(tmp_path / "n.csv")
    assert config.engine.model == str(tmp_path / "m.gguf")


def test_the_resolved_configuration_reads_back_the_same(tmp_path: Path) -> None:
    config = parse_config(MINIMAL, "c")
    assert load_config(_write(tmp_path, yaml.safe_dump(config.plain()))) == config


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
