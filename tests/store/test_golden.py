"""Files of version 1, as they were first written, are read forever."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import ModuleType

import pytest

from kgqa_hpc.kg.file import read_graph
from kgqa_hpc.store.anchors import AnchorsFile
from kgqa_hpc.store.document import read_document
from kgqa_hpc.store.journal import journals_of, read_journal
from kgqa_hpc.store.lease import Leases, holders
from kgqa_hpc.store.partition import load_shard, partition, read_shards_manifest
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.results import read_result, read_summary
from kgqa_hpc.store.run_folder import RunFolder
from tests.by_path import load

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def v1(tmp_path: Path) -> RunFolder:
    shutil.copytree(GOLDEN / "v1", tmp_path / "v1")
    return RunFolder.open(tmp_path / "v1")


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script that wrote them knows what is in them."""
    return load(GOLDEN / "make_v1.py")


def test_the_manifest_and_configuration(v1: RunFolder) -> None:
    manifest = v1.manifest()
    assert manifest.digest == "b683845eb8c53dd8f7a7496199d642bbe97ab1793e4c148f34bc58aac87b0a08"
    assert sorted(manifest.sections) == ["graph", "passes", "prompts", "sampling"]
    assert v1.config()["seed"] == 42
    assert v1.check(manifest.sections) == manifest.digest


def test_the_graph(v1: RunFolder, made: ModuleType) -> None:
    graph = read_graph(v1.kg)
    assert graph.names.tolist() == [node[1] for node in made.NODES]
    assert graph.edge_types == ("causes", "is a")


def test_the_anchors_and_shards(v1: RunFolder, made: ModuleType) -> None:
    rows = [made.anchor(number) for number in range(3)]
    with AnchorsFile(v1.anchors) as anchors:
        assert list(anchors.rows()) == rows
    manifest = read_shards_manifest(v1)
    assert partition(v1, 99) == manifest
    assert [row for name in manifest.names for row in load_shard(v1, manifest, name)] == rows
    assert not list(v1.quarantine.glob("shards-*"))


def test_the_result(v1: RunFolder, made: ModuleType) -> None:
    assert done_shards(v1, "main") == {"shard-000000"}
    path = v1.result("main", "shard-000000")
    expected = [("accepted", 0), ("rejected", 1)]
    assert read_result(path) == [made.record(made.anchor(n)["id"], status) for status, n in expected]
    header = read_summary(path)
    assert header["counts"] == {"accepted": 1, "rejected": 1}
    assert header["tokens"] == {"prompt": 1800, "completion": 160, "cached": 1400}


def test_the_journal(v1: RunFolder, made: ModuleType) -> None:
    (path,) = journals_of(v1.results("main"), "shard-000001")
    header = {"fingerprint": v1.manifest().digest, "pass": "main", "shard": "shard-000001"}
    records, damage = read_journal(path, header)
    assert records == [made.record(made.anchor(2)["id"], "accepted")]
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
