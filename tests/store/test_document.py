"""Any text of a model can be written as JSON; a checksummed document reads back as written, or not at all."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgqa_hpc.errors import CorruptFile, MissingFile, NewerFormat
from kgqa_hpc.store import canonical
from kgqa_hpc.store.canonical import read_document, write_document

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(value=JSON)
def test_json_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, value: Any) -> None:
    for render in (canonical.dumps, canonical.canonical, canonical.pretty):
        assert canonical.loads(render(value)) == value
    path = tmp_path_factory.getbasetemp() / "d.json"
    write_document(path, {"x": value})
    assert read_document(path) == {"x": value}


@given(ANYTHING)
def test_anything_can_be_written_and_is_stable_from_then_on(value: Any) -> None:
    rendered = canonical.dumps(value)
    assert canonical.dumps(canonical.loads(rendered)) == rendered
    assert b"\n" not in rendered


def test_keys_keep_their_order_unless_canonical(tmp_path: Path) -> None:
    assert canonical.dumps({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert canonical.canonical({"b": 1, "a": 2}) == b'{"a":2,"b":1}'
    assert canonical.digest({"b": 1, "a": 2}) == canonical.digest({"a": 2, "b": 1})
    write_document(tmp_path / "a", {"x": 1, "y": (1, 2)})
    write_document(tmp_path / "b", {"y": [1, 2], "x": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_value_that_json_cannot_hold_becomes_the_nearest_it_can() -> None:
    value = {1: "a\ud800b", "big": 2**70, "tuple": (1, 2), "nan": float("nan"), "inf": float("inf")}
    plain = {"1": "a?b", "big": str(2**70), "tuple": [1, 2], "nan": None, "inf": None}
    assert canonical.loads(canonical.dumps(value)) == plain
    with pytest.raises(TypeError, match="set is not a JSON type"):
        canonical.dumps({"a": {1, 2}})


def test_ten_thousand_brackets_become_text_instead_of_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    text = canonical.dumps({"answer": deep, "rest": 1})
    assert b"(nested too deeply)" in text
    assert canonical.loads(text)["rest"] == 1


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"x": 1}', b"{", b"\xff", b"null", b'{"checksum": 1}'])
def test_other_files_are_corrupt_and_no_crash(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "d").write_bytes(data)
    with pytest.raises(CorruptFile, match=r"d: "):
        read_document(tmp_path / "d")


def test_another_kind_or_version_and_no_file_are_refused_by_name(tmp_path: Path) -> None:
    write_document(tmp_path / "d", {"format": "kgqa-run", "version": 2})
    with pytest.raises(CorruptFile, match="not a kgqa-shards file"):
        read_document(tmp_path / "d", "shards")
    with pytest.raises(NewerFormat, match="version 2 of kgqa-run; this program knows up to 1") as caught:
        read_document(tmp_path / "d", "run")
    assert not isinstance(caught.value, CorruptFile)
    assert "update kgqa_hpc" in caught.value.cure
    assert read_document(tmp_path / "d", "run", version=2)["version"] == 2
    with pytest.raises(MissingFile, match="no such file"):
        read_document(tmp_path / "e")
    with pytest.raises(CorruptFile, match="not a regular file"):
        read_document(tmp_path)
