"""partition: the same shards whoever cuts them, however often, and whatever interrupted it."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, StoppedEarly, StoreError
from kgqa_hpc.store import document
from kgqa_hpc.store import partition as partition_module
from kgqa_hpc.store.document import write_document
from kgqa_hpc.store.partition import ShardsManifest, load_shard, partition, read_shards_manifest, shard_name
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import ShardEntry, read_shard, write_anchors, write_shard
from tests.disk_watch import watch

Make = Callable[[int], dict[str, Any]]


def files(run: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.shards.iterdir())}


def test_the_shards_together_are_the_anchors_in_order(run: RunFolder, make_anchor: Make) -> None:
    rows = [make_anchor(number) for number in range(10)]
    write_anchors(run.anchors, rows, {})
    manifest = partition(run, 4)
    assert manifest.names == ["shard-000000", "shard-000001", "shard-000002"]
    assert [entry.items for entry in manifest.shards] == [4, 4, 2]
    assert (manifest.items, manifest.shard_size) == (10, 4)
    together = [row for e in manifest.shards for row in read_shard(run.shard(e.name), e.sha256)]
    assert together == rows
    assert read_shards_manifest(run) == manifest


def test_the_manifest_comes_last(run: RunFolder, make_anchor: Make) -> None:
    write_anchors(run.anchors, [make_anchor(number) for number in range(6)], {})
    named: list[str] = []
    with watch(lambda call, where: named.append(Path(where).name) if call in ("link", "rename") else None):
        partition(run, 2)
    assert sorted(named[:3]) == ["shard-000000.h5", "shard-000001.h5", "shard-000002.h5"]
    assert named[3:] == ["manifest.json"]


def test_cutting_again_changes_no_byte(cut_run: RunFolder) -> None:
    before = files(cut_run)
    manifest = partition(cut_run, 4)
    assert files(cut_run) == before
    assert partition(cut_run, 4) == manifest


def test_another_size_keeps_the_partition_that_results_refer_to(cut_run: RunFolder) -> None:
    before = files(cut_run)
    assert partition(cut_run, 7).shard_size == 4
    assert files(cut_run) == before


def test_an_interrupted_partition_is_completed(cut_run: RunFolder) -> None:
    before = files(cut_run)
    cut_run.shards_manifest.unlink()
    cut_run.shard("shard-000003").unlink()
    partition(cut_run, 7)  # the shards that lie there tell the size
    assert files(cut_run) == before


def test_without_any_shard_left_the_new_size_counts(cut_run: RunFolder) -> None:
    shutil.rmtree(cut_run.shards)
    assert partition(cut_run, 7).shard_size == 7


@pytest.mark.parametrize("damage", [b"", b"x" * 500, "flip"])
def test_a_damaged_shard_goes_to_quarantine_and_is_cut_again(cut_run: RunFolder, damage: Any) -> None:
    before = files(cut_run)
    path = cut_run.shard("shard-000002")
    path.write_bytes(path.read_bytes().replace(b"kgqa-shard", b"kgqa-shart") if damage == "flip" else damage)
    partition(cut_run, 4)
    assert files(cut_run) == before
    assert len(list(cut_run.quarantine.glob("shards-shard-000002.*.h5"))) == 1


def test_loading_mends_a_shard_whose_header_hides_the_damage(cut_run: RunFolder) -> None:
    manifest, before = read_shards_manifest(cut_run), files(cut_run)
    path = cut_run.shard("shard-000001")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    assert [row["id"][-1] for row in load_shard(cut_run, manifest, "shard-000001")] == ["4", "5", "6", "7"]
    assert files(cut_run) == before
    assert len(list(cut_run.quarantine.glob("*.reason.json"))) == 1


def test_loading_cuts_a_missing_shard_again(cut_run: RunFolder) -> None:
    manifest, before = read_shards_manifest(cut_run), files(cut_run)
    cut_run.shard("shard-000001").unlink()
    assert len(load_shard(cut_run, manifest, "shard-000001")) == 4
    assert files(cut_run) == before


def test_a_whole_shard_of_another_run_is_not_taken(cut_run: RunFolder, make_anchor: Make) -> None:
    manifest, before = read_shards_manifest(cut_run), files(cut_run)
    foreign = {"anchors_sha256": "0" * 64, "shard_size": 4, "start": 4}
    write_shard(cut_run.shard("shard-000001"), [make_anchor(99)], foreign)
    assert len(load_shard(cut_run, manifest, "shard-000001")) == 4
    assert files(cut_run) == before


def test_another_builds_bytes_of_the_same_anchors_are_listed_anew(
    cut_run: RunFolder, make_anchor: Make
) -> None:
    """Another zlib compresses the same anchors into other bytes; the manifest then follows the file."""
    manifest = read_shards_manifest(cut_run)
    rows = [make_anchor(number) for number in range(4, 8)]
    origin = {"anchors_sha256": manifest.anchors_sha256, "shard_size": 4, "start": 4}
    other = write_shard(cut_run.shard("shard-000001"), rows, {**origin, "zlib": "another"})
    # Only its header differs here; what counts is that the manifest's sha256 is not the file's.
    write_document(
        cut_run.shards_manifest,
        {
            **manifest.to_dict(),
            "shards": [{**e.to_dict(), "sha256": "0" * 64} for e in manifest.shards],
        },
    )
    assert load_shard(cut_run, read_shards_manifest(cut_run), "shard-000001") == rows
    assert partition(cut_run, 4).entry("shard-000001") == other
    assert not cut_run.quarantine.exists()


def test_a_damaged_manifest_is_made_again_from_the_shards(cut_run: RunFolder) -> None:
    before = files(cut_run)
    cut_run.shards_manifest.write_bytes(cut_run.shards_manifest.read_bytes()[:-20])
    partition(cut_run, 9)
    assert files(cut_run) == before
    assert len(list(cut_run.quarantine.glob("shards-manifest.*.json"))) == 2  # it and its reason


def test_a_damaged_manifest_and_first_shard_do_not_stop_it(cut_run: RunFolder) -> None:
    before = files(cut_run)
    cut_run.shards_manifest.unlink()
    cut_run.shard("shard-000000").write_bytes(b"")
    partition(cut_run, 4)
    assert files(cut_run) == before


def test_other_anchors_under_existing_shards_are_refused(cut_run: RunFolder, make_anchor: Make) -> None:
    write_anchors(cut_run.anchors, [make_anchor(7)], {})
    with pytest.raises(FingerprintMismatch, match="was cut from another anchors"):
        partition(cut_run, 4)


def test_missing_or_damaged_anchors_are_clear_errors(run: RunFolder, make_anchor: Make) -> None:
    with pytest.raises(StoreError, match=r"anchors.h5: no such file") as caught:
        partition(run, 4)
    assert "kgqa sample" in caught.value.cure
    write_anchors(run.anchors, [make_anchor(7)], {})
    data = bytearray(run.anchors.read_bytes())
    data[-1] ^= 1
    run.anchors.write_bytes(data)
    with pytest.raises(CorruptFile, match=r"anchors.h5"):
        partition(run, 4)


def test_processes_that_cut_at_once_agree(run: RunFolder, make_anchor: Make) -> None:
    write_anchors(run.anchors, (make_anchor(number) for number in range(60)), {})
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:  # it must not come to the next fork: nobody would wait for its children
            status = 1
            try:
                partition(run, 2)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    manifest = read_shards_manifest(run)
    assert len(manifest.shards) == 30
    assert all(read_shard(run.shard(entry.name), entry.sha256) for entry in manifest.shards)
    assert sorted(files(run)) == sorted([f"{name}.h5" for name in manifest.names] + ["manifest.json"])


def test_of_two_builds_that_cut_at_once_the_first_ones_shard_is_listed(
    run: RunFolder, make_anchor: Make
) -> None:
    """Their bytes may differ (another zlib); what the manifest lists must be what lies there."""
    write_anchors(run.anchors, [make_anchor(number) for number in range(2)], {})
    origin = {"anchors_sha256": read_header(run.anchors, "anchors")["sha256"], "shard_size": 2, "start": 0}
    first = []

    def probe(call: str, where: str) -> None:
        if call == "link" and not first:
            first.append(None)
            rows = [make_anchor(number) for number in range(2)]
            first.append(write_shard(Path(where), rows, {**origin, "build": "another"}))

    with watch(probe):
        manifest = partition(run, 2)
    assert manifest.shards == (first[1],)
    assert read_shard(run.shard("shard-000000"), manifest.shards[0].sha256)


def test_an_unknown_shard_is_a_key_error(cut_run: RunFolder) -> None:
    manifest = read_shards_manifest(cut_run)
    for name in ("shard-000099", "other", "shard-x", "shard-000000 ", "shard-0000001"):
        with pytest.raises(KeyError):
            manifest.entry(name)
    assert manifest.entry("shard-000004") == manifest.shards[4]


def test_a_document_that_is_no_manifest_of_shards_is_corrupt(cut_run: RunFolder) -> None:
    for shards in ([{"name": "x"}], [1], None):
        content = {"format": "kgqa-shards", "version": 1, "anchors_sha256": "", "shard_size": 1, "items": 1}
        write_document(cut_run.shards_manifest, {**content, "shards": shards})
        with pytest.raises(CorruptFile, match="not a manifest of shards"):
            read_shards_manifest(cut_run)
    assert isinstance(partition(cut_run, 4), ShardsManifest)


def test_no_more_than_a_shard_is_held_in_memory(
    run: RunFolder, make_anchor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_anchors(run.anchors, (make_anchor(number) for number in range(100)), {})
    sizes: list[int] = []
    real = partition_module.write_shard
    lock = threading.Lock()

    def noting(path: Path, rows: Any, *args: Any, **options: Any) -> Any:
        with lock:
            sizes.append(len(rows))
        return real(path, rows, *args, **options)

    monkeypatch.setattr(partition_module, "write_shard", noting)
    partition(run, 9)
    assert max(sizes) == 9
    assert sum(sizes) == 100


def test_a_shard_that_another_set_aside_meanwhile_is_cut_again(
    cut_run: RunFolder, set_aside: Callable[[Path], None]
) -> None:
    manifest = read_shards_manifest(cut_run)
    expected = load_shard(cut_run, manifest, "shard-000001")
    set_aside(cut_run.shard("shard-000001"))
    assert load_shard(cut_run, manifest, "shard-000001") == expected


def test_a_manifest_that_another_set_aside_meanwhile_is_made_again(
    cut_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cut_run.shards_manifest.read_bytes()
    read = document.read_sized

    def read_too_late(path: Path, limit: int = -1) -> tuple[bytes, int]:
        if path != cut_run.shards_manifest:
            return read(path, limit)
        path.unlink()
        monkeypatch.setattr(document, "read_sized", read)
        return read(path, limit)

    monkeypatch.setattr(document, "read_sized", read_too_late)
    partition(cut_run, 4)
    assert cut_run.shards_manifest.read_bytes() == before


def test_cutting_stops_within_a_moment_and_goes_on_where_it_was(run: RunFolder, make_anchor: Make) -> None:
    write_anchors(run.anchors, [make_anchor(n) for n in range(100)], {})
    looks = iter(range(100))
    with pytest.raises(StoppedEarly):
        partition(run, 2, stopped=lambda: next(looks) == 10)
    assert not run.shards_manifest.exists()
    cut = len(list(run.shards.glob("shard-*.h5")))
    assert 0 < cut < 50
    assert len(partition(run, 2).shards) == 50


def test_a_lost_manifest_and_first_shard_do_not_change_the_size(run: RunFolder, make_anchor: Make) -> None:
    write_anchors(run.anchors, [make_anchor(n) for n in range(10)], {})
    before = partition(run, 3)
    run.shards_manifest.unlink()
    run.shard("shard-000000").unlink()
    assert partition(run, 5) == before


def test_a_shard_is_read_without_listing_all_others(
    cut_run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads 20,000 shards must not list 20,000 for each of them."""
    manifest = read_shards_manifest(cut_run)
    expected = {name: load_shard(cut_run, manifest, name) for name in manifest.names}
    monkeypatch.delattr(partition_module, "_pieces")
    cut_run.shard("shard-000001").unlink()
    assert {name: load_shard(cut_run, manifest, name) for name in manifest.names} == expected


def test_a_manifest_that_lists_more_shards_than_there_are_anchors_is_corrupt(cut_run: RunFolder) -> None:
    manifest = read_shards_manifest(cut_run)
    name = shard_name(len(manifest.shards))
    shards = (*manifest.shards, ShardEntry(name, 4, "0" * 64))
    more = ShardsManifest(manifest.anchors_sha256, manifest.shard_size, manifest.items, shards)
    with pytest.raises(CorruptFile, match=name):
        load_shard(cut_run, more, name)
