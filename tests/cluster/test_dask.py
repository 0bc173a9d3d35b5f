"""`kgqa merge --dask slurm` on a real Slurm: jobs of dask-jobqueue do the tasks, with the bytes of one process."""

import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import Place, Slurm, dataset, make_place, needs_slurm
from tests.waiting import wait_for
from tests.work.rig import reconfigure

pytest.importorskip(
    "dask_jobqueue", reason="SKIPPED: DASK-JOBQUEUE IS NOT INSTALLED (pip install 'kgqa_hpc[dask]')"
)
pytest.importorskip("rensa", reason="SKIPPED: RENSA IS NOT INSTALLED (pip install 'kgqa_hpc[duplicates]')")

pytestmark = [needs_slurm, pytest.mark.cluster, pytest.mark.slow]

NAME = "kgqa-dask"
# What a site has in ~/.config/dask/jobqueue.yaml.
SITE = {"CORES": "1", "MEMORY": "500MB", "WALLTIME": "00:10:00", "INTERFACE": "lo", "NAME": NAME}


@pytest.fixture
def place(tmp_path: Path, slurm: Slurm) -> Place:
    site = {f"DASK_JOBQUEUE__SLURM__{key}": value for key, value in SITE.items()}
    logs = {
        "DASK_JOBQUEUE__SLURM__LOG_DIRECTORY": str(tmp_path / "jobs"),
        "DASK_CONFIG": str(tmp_path / "none"),
    }
    return make_place(tmp_path / "here", {**slurm.environ, **site, **logs})


def test_jobs_of_dask_do_the_tasks_and_the_bytes_are_those_of_one_process(place: Place, slurm: Slurm) -> None:
    run = place.prepared(0)
    reconfigure(run, dataset={"duplicates": {"near": 0.9}})
    place.kgqa("run", "oregano")
    place.kgqa("merge", "oregano")
    alone = dataset(run)
    place.kgqa("merge", "oregano", "--dask", "slurm")
    assert dataset(run) == alone
    queue = ("squeue", "--states=all", "--noheader", f"--name={NAME}", "--format=%T")
    assert slurm(*queue), "Slurm was asked for workers"
    # One that Dask sent home may end by itself before it is cancelled, and one that had just begun finds nobody.
    wait_for(
        lambda: set(slurm(*queue).split()) <= {"CANCELLED", "COMPLETED", "FAILED"},
        "the jobs to end with the merge",
    )


def test_jobs_that_slurm_refuses_are_an_error_and_nothing_waits(place: Place) -> None:
    run = place.prepared(0)
    merge = (sys.executable, "-m", "kgqa_hpc", "merge", "oregano", "--dask", "slurm")
    with pytest.raises(
        AssertionError, match=r"(?s)exit code 2:.*Slurm refuses Dask's jobs.*(nowhere|partition)"
    ):
        place(*merge, DASK_JOBQUEUE__SLURM__QUEUE="nowhere")
    assert not run.dataset.exists()
