"""docs/reference/format.md is true, and files of each kind are read for ever as they were first written.

tests/store/golden/v1 holds the kinds that are still of version 1: a partition, a journal, a lease, a pin and a
reason. tests/golden_runs holds a run of version 2.
"""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.errors import OlderFormat
from kgqa_hpc.store import atomic, cleanup, sealed, table
from kgqa_hpc.store.canonical import read_document
from kgqa_hpc.store.journal import journals_of, open_next, read_journal
from kgqa_hpc.store.lease import Leases
from kgqa_hpc.store.partition import load_shard, partition, read_shards_manifest
from kgqa_hpc.store.queue import done_shards
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.store.shards import AnchorsFile, read_result, read_summary
from tests.store.conftest import anchor, record

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "reference" / "format.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def run_example(number: int, path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"path": path}
    exec(compile(EXAMPLES[number], f"docs/reference/format.md, example {number}", "exec"), names)
    return names


def test_a_third_party_reads_and_verifies_a_shard_with_h5py_alone(
    cut_run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cut_run.shard("shard-000001")
    assert run_example(0, path)["anchors"] == [anchor(number) for number in range(4, 8)]
    assert capsys.readouterr().out == "kgqa-shard 2 4\n"
    assert run_example(1, path)["header"]["rows"] == 4
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError):
        run_example(1, path)


def test_a_third_party_reads_a_journal_with_the_standard_library(tmp_path: Path) -> None:
    journal, _ = open_next(tmp_path, "s", {"pass": "main"})
    journal.append(record("g01-a"))
    journal.close()
    names = run_example(2, journal.path)
    assert names["header"]["pass"] == "main"
    assert names["records"] == [record("g01-a")]
    assert names["torn_tail"] == b""


def test_the_numbers_of_the_page_are_the_programs() -> None:
    text = " ".join(PAGE.split())
    for said in (
        f"padded with spaces to {sealed.HEADER_BYTES - 1:,} bytes",
        f"Datasets of {table.COMPRESS_FROM // 1024} KiB and more",
        f"chunked ({table.CHUNK_BYTES // 1024} KiB), gzip 4",
        f"`{atomic.TEMP_SUFFIX}`",
    ):
        assert said in text, said
    assert (cleanup.LITTER_AGE, atomic.GUARD_AGE) == (3600, 60)  # "for an hour", "older than a minute"


def test_every_path_of_a_run_stands_in_the_page(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    files = (run.config_file, run.manifest_file, run.kg, run.anchors, run.shards_manifest, run.status_file)
    for path in files:
        assert f"`{path.relative_to(tmp_path)}`" in PAGE
    for folder in (run.stats, run.dataset, run.report, run.logs, run.quarantine):
        assert f"`{folder.name}/`" in PAGE
    assert f"`pins/{run.pins.joinpath('NAME.json').name}`" in PAGE


def test_the_sections_that_the_code_names_exist() -> None:
    package = Path(sealed.__file__).parent
    for file in sorted(package.glob("*.py")):
        text = " ".join(file.read_text(encoding="utf-8").split())
        for number in re.findall(r"docs/reference/format\.md, section (\d+)", text):
            assert re.search(rf"^## {number}\. ", PAGE, flags=re.MULTILINE), f"{file.name} names {number}"


@pytest.fixture
def v1(tmp_path: Path) -> RunFolder:
    shutil.copytree(TESTS / "store" / "golden" / "v1", tmp_path / "v1")
    return RunFolder(tmp_path / "v1")


@pytest.fixture
def v2(tmp_path: Path) -> RunFolder:
    shutil.copytree(TESTS / "golden_runs" / "v2", tmp_path / "v2")
    return RunFolder.open(tmp_path / "v2")


def test_a_run_of_version_2(v2: RunFolder) -> None:
    manifest = v2.manifest()
    assert sorted(manifest.sections) == ["graph", "passes", "prompts", "sampling"]
    assert v2.config()["seed"] == 5
    v2.check(manifest.sections)
    with AnchorsFile(v2.anchors) as anchors:
        rows = list(anchors.rows())
    assert len(rows) == 9
    shards = read_shards_manifest(v2)
    assert partition(v2, 99) == shards
    assert [row for name in shards.names for row in load_shard(v2, shards, name)] == rows
    assert not list(v2.quarantine.glob("shards-*"))
    assert done_shards(v2, "main") == {"shard-000000", "shard-000001", "shard-000002"}
    path = v2.result("main", "shard-000000")
    assert [row["status"] for row in read_result(path, v2.origin("main"))].count("accepted") == 2
    assert read_summary(path)["counts"] == {"accepted": 2, "rejected": 2}


def test_a_result_of_version_1_is_refused_with_its_converter() -> None:
    with pytest.raises(OlderFormat, match="version 1 of kgqa-result") as caught:
        read_result(TESTS / "golden_runs/v1/results/main/shard-000000.h5")
    assert "tools/upgrade_v1.py" in caught.value.cure


def test_partition_journal_pin_and_reason_of_version_1(v1: RunFolder) -> None:
    assert read_shards_manifest(v1).names == ["shard-000000", "shard-000001"]
    (path,) = journals_of(v1.results("main"), "shard-000001")
    records, damage = read_journal(path, {"pass": "main", "shard": "shard-000001"})
    pair = {"question": "Welches Gen? \u00e9\n", "answer": "FRDA \u03b1"}
    assert [(record["id"], record["output"]) for record in records] == [("g02-0000000000000002", pair)]
    assert not damage
    v1.pin("engine-main", {"name": "scripted", "model": "scripted-1"})
    (reason,) = v1.quarantine.glob("*.reason.json")
    assert read_document(reason, "reason")["reason"] == "an example of a reason"


def test_a_lease_of_version_1(v1: RunFolder, clock: Callable[[float], None]) -> None:
    leases = Leases(v1.leases("main"), "w1", 120.0)
    (holder,) = leases.holders()
    assert (holder.name, holder.worker) == ("shard-000001", "golden-0")
    assert leases.path("shard-000001").exists()
    os.utime(leases.path("shard-000001"), (1, 1))
    assert leases.claim("shard-000001") is None, "it does not say whose machine's: watch it first"
    clock(50)
    assert leases.claim("shard-000001") is not None
