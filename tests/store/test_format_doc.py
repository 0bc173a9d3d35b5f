"""docs/reference/format.md is true: its examples run, its constants are the program's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.store import atomic, cleanup, queue, sealed
from kgqa_hpc.store import table as rows
from kgqa_hpc.store.journal import open_next
from kgqa_hpc.store.run_folder import RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "format.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


def run_example(number: int, path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"path": path}
    exec(compile(EXAMPLES[number], f"docs/reference/format.md, example {number}", "exec"), names)
    return names


def test_a_third_party_reads_a_shard_with_h5py_alone(
    cut_run: RunFolder, make_anchor: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run_example(0, cut_run.shard("shard-000001"))
    assert names["anchors"] == [make_anchor(number) for number in range(4, 8)]
    assert capsys.readouterr().out == "kgqa-shard 2 4\n"


def test_a_third_party_verifies_a_shard_with_the_standard_library(cut_run: RunFolder) -> None:
    path = cut_run.shard("shard-000001")
    assert run_example(1, path)["header"]["rows"] == 4
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError):
        run_example(1, path)


def test_a_third_party_reads_a_journal_with_the_standard_library(tmp_path: Path, make_record: Any) -> None:
    journal, _ = open_next(tmp_path, "s", {"pass": "main"})
    journal.append(make_record("g01-a"))
    journal.close()
    names = run_example(2, journal.path)
    assert names["header"]["pass"] == "main"
    assert names["records"] == [make_record("g01-a")]
    assert names["torn_tail"] == b""


def test_the_numbers_of_the_page_are_the_programs() -> None:
    text = " ".join(PAGE.split())
    for said in (
        f"padded with spaces to {sealed.HEADER_BYTES - 1:,} bytes",
        f"Datasets of {rows.COMPRESS_FROM // 1024} KiB and more",
        f"chunked ({rows.CHUNK_BYTES // 1024} KiB), gzip 4",
        f"`{atomic.TEMP_SUFFIX}`",
        f"after {queue.PACE} s per remaining shard, at least {queue.SOONEST:.0f} s",
        f"only after {queue.DONE_IN_A_ROW} finished shards in a row",
        f"ends after {queue.LOOKS} live leases",
        f"waits 0.5 to {queue.LONGEST_WAIT:.0f} s with jitter and checks {queue.SAMPLE} shards",
    ):
        assert said in text, said
    assert (cleanup.LITTER_AGE, atomic.GUARD_AGE) == (3600, 60)  # "for an hour", "older than a minute"


def test_every_path_of_a_run_stands_in_the_page(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for path in (
        run.config_file,
        run.manifest_file,
        run.kg,
        run.anchors,
        run.shards_manifest,
        run.status_file,
    ):
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
