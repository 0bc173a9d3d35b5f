"""partition: the same shards whoever cuts them, however often, and whatever interrupted it."""

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from kgqa_hpc.errors import CorruptFile, FingerprintMismatch, StoppedEarly, StoreError
from kgqa_hpc.store import canonical
from kgqa_hpc.store import partition as partition_module
from kgqa_hpc.store.canonical import write_document
from kgqa_hpc.store.partition import ShardsManifest, load_shard, partition, read_shards_manifest, shard_name
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.sealed import read_header
from kgqa_hpc.store.shards import ShardEntry, write_anchors, write_shard
from tests.disk_watch import before, watch
from tests.runs import read_shard
from tests.store.conftest import anchor, flip, in_children

ROWS = [anchor(number) for number in range(100)]
SHARD = "shard-000001"  # of `cut_run`: anchors 4 to 7


def files(run: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(run.shards.iterdir())}


def reasons(run: RunFolder) -> list[str]:
    """Names of the files in quarantine, without the random part."""
    return sorted(path.name.split(".")[0] for path in run.quarantine.glob("*.reason.json"))


def test_the_shards_together_are_the_anchors_in_order_and_the_manifest_comes_last(run: RunFolder) -> None:
    write_anchors(run.anchors, ROWS[:10], {})
    named: list[str] = []
    with watch(lambda call, where: named.append(Path(where).name) if call in ("link", "rename") else None):
        manifest = partition(run, 4)
    assert manifest.names == ["shard-000000", "shard-000001", "shard-000002"]
    assert sorted(named[:3]) == [f"{name}.h5" for name in manifest.names]
    assert named[3:] == ["manifest.json"]
    assert [entry.items for entry in manifest.shards] == [4, 4, 2]
    assert (manifest.items, manifest.shard_size) == (10, 4)
    assert [row for e in manifest.shards for row in read_shard(run.shard(e.name))] == ROWS[:10]
    assert read_shards_manifest(run) == manifest


def lose_manifest(run: RunFolder, *shards: str) -> None:
    for path in (run.shards_manifest, *map(run.shard, shards)):
        path.unlink()


DAMAGES: dict[str, tuple[Callable[[RunFolder], object], list[str]]] = {
    "nothing": (lambda run: None, []),
    "no manifest, an inner shard": (lambda run: lose_manifest(run, "shard-000003"), []),
    "no manifest, the first shard": (lambda run: lose_manifest(run, "shard-000000"), []),
    "an empty shard": (lambda run: run.shard(SHARD).write_bytes(b""), [f"shards-{SHARD}"]),
    "garbage": (lambda run: run.shard(SHARD).write_bytes(b"x" * 500), [f"shards-{SHARD}"]),
    "a damaged header": (lambda run: flip(run.shard(SHARD), 100), [f"shards-{SHARD}"]),
    "a cut manifest": (
        lambda run: run.shards_manifest.write_bytes(run.shards_manifest.read_bytes()[:-20]),
        ["shards-manifest"],
    ),
    "no manifest, a damaged first shard": (
        lambda run: (lose_manifest(run), run.shard("shard-000000").write_bytes(b"")),
        ["shards-shard-000000"],
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_cutting_again_mends_what_is_damaged_and_changes_no_other_byte(cut_run: RunFolder, name: str) -> None:
    """Whatever size is asked for: results refer to the shards that are there."""
    expected = files(cut_run)
    act, quarantined = DAMAGES[name]
    act(cut_run)
    assert partition(cut_run, 7).shard_size == 4
    assert files(cut_run) == expected
    assert reasons(cut_run) == quarantined


def test_without_any_shard_the_new_size_counts(cut_run: RunFolder) -> None:
    shutil.rmtree(cut_run.shards)
    assert partition(cut_run, 7).shard_size == 7


def put_foreign(run: RunFolder) -> None:
    run.shard(SHARD).unlink()
    write_shard(run.shard(SHARD), [anchor(99)], {"anchors_sha256": "0" * 64, "shard_size": 4, "start": 4})


@pytest.mark.parametrize(
    ("act", "quarantined"),
    [
        (lambda run: flip(run.shard(SHARD), -5), 1),  # the header is whole
        (lambda run: run.shard(SHARD).unlink(), 0),
        (put_foreign, 1),
    ],
    ids=["damaged", "missing", "foreign"],
)
def test_loading_cuts_a_damaged_missing_or_foreign_shard_again(
    cut_run: RunFolder, act: Callable[[RunFolder], None], quarantined: int
) -> None:
    manifest, expected = read_shards_manifest(cut_run), files(cut_run)
    act(cut_run)
    assert load_shard(cut_run, manifest, SHARD) == ROWS[4:8]
    assert files(cut_run) == expected
    assert len(reasons(cut_run)) == quarantined


def test_another_builds_bytes_of_the_same_anchors_are_listed_anew(cut_run: RunFolder) -> None:
    """Another zlib compresses the same anchors into other bytes; the manifest then follows the file."""
    manifest = read_shards_manifest(cut_run)
    origin = {"anchors_sha256": manifest.anchors_sha256, "shard_size": 4, "start": 4}
    cut_run.shard(SHARD).unlink()
    other = write_shard(cut_run.shard(SHARD), ROWS[4:8], {**origin, "zlib": "another"})
    # Only its header differs here; what counts is that the manifest's sha256 is not the file's.
    shards = [{**asdict(entry), "sha256": "0" * 64} for entry in manifest.shards]
    write_document(cut_run.shards_manifest, {**manifest.to_dict(), "shards": shards})
    assert load_shard(cut_run, read_shards_manifest(cut_run), SHARD) == ROWS[4:8]
    assert partition(cut_run, 4).entry(SHARD) == other
    assert not cut_run.quarantine.exists()


def test_other_missing_or_damaged_anchors_are_clear_errors(run: RunFolder) -> None:
    with pytest.raises(StoreError, match=r"anchors.h5: no such file") as caught:
        partition(run, 4)
    assert "kgqa sample" in caught.value.cure
    write_anchors(run.anchors, ROWS[:7], {})
    flip(run.anchors, -1)
    with pytest.raises(CorruptFile, match=r"anchors.h5"):
        partition(run, 4)
    write_anchors(run.anchors, ROWS[:7], {})
    partition(run, 4)
    write_anchors(run.anchors, ROWS[:1], {})
    with pytest.raises(FingerprintMismatch, match="was cut from another anchors"):
        partition(run, 4)


def test_processes_that_cut_at_once_agree(run: RunFolder) -> None:
    write_anchors(run.anchors, ROWS[:60], {})
    in_children(3, lambda _: partition(run, 2))
    manifest = read_shards_manifest(run)
    assert len(manifest.shards) == 30
    assert [row for name in manifest.names for row in read_shard(run.shard(name))] == ROWS[:60]
    assert sorted(files(run)) == sorted([f"{name}.h5" for name in manifest.names] + ["manifest.json"])


def test_of_two_builds_that_cut_at_once_the_first_ones_shard_is_listed(run: RunFolder) -> None:
    """Their bytes may differ (another zlib); what the manifest lists must be what lies there."""
    write_anchors(run.anchors, ROWS[:2], {})
    origin = {"anchors_sha256": read_header(run.anchors, "anchors")["sha256"], "shard_size": 2, "start": 0}
    first: list[ShardEntry] = []

    def cut_first(where: str) -> None:
        first.append(write_shard(Path(where), ROWS[:2], {**origin, "build": "another"}))

    with watch(before("link", cut_first)):
        manifest = partition(run, 2)
    assert manifest.shards == tuple(first)
    assert read_header(run.shard("shard-000000"), "shard")["sha256"] == manifest.shards[0].sha256


def test_an_unknown_shard_is_a_key_error(cut_run: RunFolder) -> None:
    manifest = read_shards_manifest(cut_run)
    for name in ("shard-000099", "other", "shard-x", "shard-000000 ", "shard-0000001"):
        with pytest.raises(KeyError):
            manifest.entry(name)
    assert manifest.entry("shard-000004") == manifest.shards[4]


def test_a_document_that_is_no_manifest_of_shards_is_corrupt(cut_run: RunFolder) -> None:
    manifest = read_shards_manifest(cut_run)
    for shards in ([{"name": "x"}], [1], None):
        write_document(cut_run.shards_manifest, {**manifest.to_dict(), "shards": shards})
        with pytest.raises(CorruptFile, match="not a manifest of shards"):
            read_shards_manifest(cut_run)
    assert partition(cut_run, 4) == manifest
    name = shard_name(5)
    more = ShardsManifest(manifest.anchors_sha256, 4, 20, (*manifest.shards, ShardEntry(name, 4, "0" * 64)))
    with pytest.raises(CorruptFile, match=name):
        load_shard(cut_run, more, name)


def test_a_file_that_another_process_set_aside_meanwhile_is_made_again(
    cut_run: RunFolder, set_aside: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, expected = read_shards_manifest(cut_run), files(cut_run)
    set_aside(cut_run.shard(SHARD))
    assert load_shard(cut_run, manifest, SHARD) == ROWS[4:8]
    read = canonical.read_sized

    def read_too_late(path: Path, limit: int = -1) -> tuple[bytes, int]:
        if path == cut_run.shards_manifest:
            path.unlink()
            monkeypatch.setattr(canonical, "read_sized", read)
        return read(path, limit)

    monkeypatch.setattr(canonical, "read_sized", read_too_late)
    partition(cut_run, 4)
    assert files(cut_run) == expected


def test_cutting_stops_within_a_moment_and_goes_on_where_it_was(run: RunFolder) -> None:
    write_anchors(run.anchors, ROWS, {})
    looks = iter(range(100))
    with pytest.raises(StoppedEarly):
        partition(run, 2, stopped=lambda: next(looks) == 10)
    assert not run.shards_manifest.exists()
    assert 0 < len(files(run)) < 50
    assert len(partition(run, 2).shards) == 50


def test_a_shard_is_read_without_listing_others(cut_run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads 20,000 shards must not list 20,000 for each of them."""
    manifest = read_shards_manifest(cut_run)
    monkeypatch.delattr(partition_module, "count")  # of the shards in order
    cut_run.shard(SHARD).unlink()
    assert [row for name in manifest.names for row in load_shard(cut_run, manifest, name)] == ROWS[:20]
