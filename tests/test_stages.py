"""What `kgqa status` says of the stages."""

from __future__ import annotations

from pathlib import Path

from kgqa_hpc.stages import STAGES, standing
from kgqa_hpc.status.render import render
from kgqa_hpc.store.partition import partition, read_shards_manifest
from kgqa_hpc.store.results import write_result
from kgqa_hpc.store.run_folder import RunFolder
from tests.runs import make_run


def done(run: RunFolder) -> list[str]:
    return [stage["name"] for stage in standing(run.path)["stages"] if stage["done"]]


def answer_every_item(run: RunFolder) -> None:
    run.results("main").mkdir(parents=True)
    for entry in read_shards_manifest(run).shards:
        rows = [{"id": str(k), "status": "accepted", "reason": None, "trace": []} for k in range(entry.items)]
        write_result(run.result("main", entry.name), rows, run.origin("main").header(entry.name, ""))


def test_status_names_the_stages_done_and_the_command_that_comes_next(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 40)  # of anchors alone: without a graph there is nothing to import
    assert [stage["name"] for stage in standing(run.path)["stages"]] == [stage.name for stage in STAGES]
    assert done(run) == ["import", "sample"]
    assert "stages    import · sample done · next: kgqa run" in render(standing(run.path))
    partition(run, 20)
    run.results("main").mkdir(parents=True)
    assert done(run) == ["import", "sample"], "work that has begun is not done"
    run.results("main").rmdir()
    answer_every_item(run)
    assert "import · sample · run done · next: kgqa merge" in render(standing(run.path))
    run.dataset.mkdir()
    run.report.mkdir()
    assert "import · sample · run · merge · report done\n" in render(standing(run.path))


def test_a_partial_dataset_does_not_make_the_work_done(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 40)
    partition(run, 20)
    run.dataset.mkdir()
    assert done(run) == ["import", "sample", "merge"]
