"""Files of each kind, as they were first written, are read for ever.

tests/store/golden/v1 holds the kinds that are still of version 1: a partition, a journal, a lease, a pin and a
reason. tests/golden_runs holds a run of version 2.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from kgqa_hpc.errors import OlderFormat
from kgqa_hpc.store.document import read_document
from kgqa_hpc.store.journal import journals_of, read_journal
from kgqa_hpc.store.lease import Leases, holders
from kgqa_hpc.store.partition import load_shard, partition, read_shards_manifest
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.results import read_result, read_summary
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile

TESTS = Path(__file__).parents[1]
RECORD = {
    "id": "g02-0000000000000002",
    "status": "accepted",
    "reason": None,
    "output": {"question": "Welches Gen? \u00e9\n", "answer": "FRDA \u03b1"},
    "verdicts": {"judge": {"valid_question": True}},
    "trace": [
        {
            "step": "generate",
            "attempt": 0,
            "text": "{}",
            "repaired": False,
            "tokens": {"prompt": 900, "completion": 80, "cached": 700},
        }
    ],
}


@pytest.fixture
def v1(tmp_path: Path) -> RunFolder:
    shutil.copytree(TESTS / "store" / "golden" / "v1", tmp_path / "v1")
    return RunFolder(tmp_path / "v1")


@pytest.fixture
def v2(tmp_path: Path) -> RunFolder:
    shutil.copytree(TESTS / "golden_runs" / "v2", tmp_path / "v2")
    return RunFolder.open(tmp_path / "v2")


def test_the_manifest_and_configuration(v2: RunFolder) -> None:
    manifest = v2.manifest()
    assert sorted(manifest.sections) == ["graph", "passes", "prompts", "sampling"]
    assert v2.config()["seed"] == 5
    assert v2.check(manifest.sections) == manifest.digest


def test_the_anchors_and_shards(v2: RunFolder) -> None:
    with AnchorsFile(v2.anchors) as anchors:
        rows = list(anchors.rows())
    assert len(rows) == 9
    manifest = read_shards_manifest(v2)
    assert partition(v2, 99) == manifest
    assert [row for name in manifest.names for row in load_shard(v2, manifest, name)] == rows
    assert not list(v2.quarantine.glob("shards-*"))


def test_the_partition_of_version_1(v1: RunFolder) -> None:
    assert read_shards_manifest(v1).names == ["shard-000000", "shard-000001"]


def test_the_result(v2: RunFolder) -> None:
    assert done_shards(v2, "main") == {"shard-000000", "shard-000001", "shard-000002"}
    path, origin = v2.result("main", "shard-000000"), v2.origin("main")
    assert [row["status"] for row in read_result(path, origin)].count("accepted") == 2
    assert read_summary(path)["counts"] == {"accepted": 2, "rejected": 2}


def test_a_result_of_version_1_is_refused_with_its_converter() -> None:
    with pytest.raises(OlderFormat, match="version 1 of kgqa-result") as caught:
        read_result(TESTS / "golden_runs/v1/results/main/shard-000000.h5")
    assert "tools/upgrade_v1.py" in caught.value.cure


def test_the_journal(v1: RunFolder) -> None:
    (path,) = journals_of(v1.results("main"), "shard-000001")
    records, damage = read_journal(path, {"pass": "main", "shard": "shard-000001"})
    assert records == [RECORD]
    assert not damage


def test_the_lease(v1: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    (holder,) = holders(v1.leases("main"), time.time())
    assert (holder.name, holder.worker) == ("shard-000001", "golden-0")
    leases = Leases(v1.leases("main"), "w1", 120.0)
    assert leases.path("shard-000001").exists()
    os.utime(leases.path("shard-000001"), (1, 1))
    assert leases.claim("shard-000001") is None, "it does not say whose machine's: watch it first"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 50)
    assert leases.claim("shard-000001") is not None


def test_the_pin_and_the_reason(v1: RunFolder) -> None:
    v1.pin("engine-main", {"name": "scripted", "model": "scripted-1"})
    (reason,) = v1.quarantine.glob("*.reason.json")
    assert read_document(reason, "reason")["reason"] == "an example of a reason"
