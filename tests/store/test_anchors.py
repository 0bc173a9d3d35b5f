"""anchors: what was sampled is streamed to disk and back, in order, in bounded memory."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from kgqa_hpc.anchors.anchor import Anchor
from kgqa_hpc.store import shards
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import AnchorsFile, write_anchors

Make = Callable[[int], dict[str, Any]]


def test_anchors_come_back_in_order_and_by_slices(
    tmp_path: Path, make_anchor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "SLICE", 7)
    rows = [make_anchor(number) for number in range(50)]
    assert write_anchors(tmp_path / "a.h5", iter(rows), {"seed": 5}) == 50
    with AnchorsFile(tmp_path / "a.h5") as file:
        assert len(file) == 50
        assert list(file.rows()) == rows
        assert list(file.rows(3, 20)) == rows[3:20]
        assert list(file.rows(45, 99)) == rows[45:]
        assert [Anchor.from_dict(row).to_dict() for row in file.rows()] == rows


def test_the_header_tells_how_many_without_opening(tmp_path: Path, make_anchor: Make) -> None:
    write_anchors(tmp_path / "a.h5", [make_anchor(1)], {"seed": 5})
    header = read_header(tmp_path / "a.h5", "anchors")
    assert (header["rows"], header["seed"]) == (1, 5)


def test_an_id_is_found_and_an_unknown_one_is_not(tmp_path: Path, make_anchor: Make) -> None:
    write_anchors(tmp_path / "a.h5", [make_anchor(number) for number in range(50)], {})
    with AnchorsFile(tmp_path / "a.h5") as file:
        assert file.find(make_anchor(31)["id"]) == 31
        assert file.find("g01-") is None


def test_no_anchor_at_all_is_a_file_too(tmp_path: Path) -> None:
    assert write_anchors(tmp_path / "a.h5", [], {}) == 0
    with AnchorsFile(tmp_path / "a.h5") as file:
        assert list(file.rows()) == []


def test_an_id_that_comes_twice_is_refused_and_nothing_written(tmp_path: Path, make_anchor: Make) -> None:
    with pytest.raises(ValueError, match="1 anchors have an id that another one has"):
        write_anchors(tmp_path / "a.h5", [make_anchor(1), make_anchor(2), make_anchor(1)], {})
    assert list(tmp_path.iterdir()) == []


def test_group_and_weight_can_be_read_without_parsing(tmp_path: Path, make_anchor: Make) -> None:
    rows = [make_anchor(number) for number in range(3)]
    write_anchors(tmp_path / "a.h5", rows, {})
    with h5py.File(tmp_path / "a.h5", "r") as file:
        offsets, text = file["anchors/group/offsets"][:], file["anchors/group/bytes"][:].tobytes().decode()
        groups = [text[a:b] for a, b in itertools.pairwise(offsets)]
        assert groups == [row["group"] for row in rows]
        assert file["anchors/weight"][:].tolist() == [row["weight"] for row in rows]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_memory_does_not_grow_with_the_number_of_anchors(tmp_path: Path) -> None:
    program = """
        import resource, sys
        from pathlib import Path
        from kgqa_hpc.store.shards import AnchorsFile, write_anchors

        def anchors(n):
            nodes = [[f"N:{k}", f"a name of ordinary length {k}", "Phenotype"] for k in range(5)]
            for i in range(n):
                yield {"id": f"g07-{i:016x}", "kind": "graphlet", "group": "shape 7", "nodes": nodes,
                       "weight": 1.0, "relations": [[0, 1, "is a"]] * 6, "data": {"shape": 7}}

        path, n = Path(sys.argv[1]), int(sys.argv[2])
        write_anchors(path, anchors(1000), {})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write_anchors(path, anchors(n), {})
        with AnchorsFile(path) as file:
            assert sum(1 for _ in file.rows()) == n
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "a.h5"), "60000"]
    grown = int(subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout)
    # 60,000 of these are 30 MB of JSON and would be 150 MB of Python objects.
    assert grown < 60
