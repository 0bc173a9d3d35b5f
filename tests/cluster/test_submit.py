"""`kgqa submit`: what it asks of Slurm, the same jobs as processes of this machine; and when a job is queued again."""

import os
import re
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest

from kgqa_hpc.cluster import slurm
from kgqa_hpc.cluster.slurm import GRAPHLETS, MERGE, Resources
from kgqa_hpc.cluster.submit import GIVE_UP, REQUEUE, Commands, submit
from kgqa_hpc.errors import InputError
from kgqa_hpc.stages import STAGES
from kgqa_hpc.store.journal import Journal
from kgqa_hpc.store.run_folder import RunFolder
from tests.command import kgqa, programs
from tests.runs import make_run
from tests.waiting import gone, wait_for
from tests.work.rig import records

pytest.importorskip("submitit")
SLURM = Path(__file__).parents[2] / "slurm"


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return make_run(tmp_path / "run", 30)


@pytest.fixture
def _no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def scripts(run: RunFolder, **wishes: Any) -> dict[str, str]:
    return {job["name"]: job["script"] for job in submit(run.path, Resources(**wishes), STAGES, dry_run=True)}


WISHES = {"workers": 5, "time": 4 * 3600, "gpus": 2, "cpus": 6, "memory": "48G", "partition": "gpu"}
WISHES |= {"account": "me", "options": {"qos": "low", "constraint": "a100"}}
SHOWN = """--array=0-4%5 --time=240 --gpus-per-task=2 --cpus-per-task=6 --mem=48G --partition=gpu --account=me --qos=low
--constraint=a100 --signal=USR2@900 --open-mode=append --requeue"""


@pytest.mark.usefixtures("_no_slurm")
def test_a_dry_run_needs_neither_slurm_nor_submitit_and_shows_every_wish(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    shown = scripts(run, **WISHES)
    assert list(shown) == ["kgqa-run", "kgqa-merge"], "what was sampled is not sampled again"
    assert {f"#SBATCH {option}" for option in SHOWN.split()} <= {*shown["kgqa-run"].splitlines()}
    assert f"run {run.path}" in shown["kgqa-run"]
    # Jobs without a GPU never get the workers' partition and constraints.
    assert "--account=me" in shown["kgqa-merge"]
    assert not any(word in shown["kgqa-merge"] for word in ("gpu", "a100", "=low"))
    assert "#SBATCH --signal=USR2@150" in scripts(run, time=600)["kgqa-run"], "a quarter of the time at most"
    with pytest.raises(InputError, match="submitit is not installed"):
        submit(run.path, Resources(), STAGES)


@pytest.mark.usefixtures("_no_slurm")
def test_submitted_jobs_and_the_scripts_run_every_stage_in_its_order(run: RunFolder) -> None:
    run.anchors.unlink()
    names = [stage.name for stage in STAGES]
    shown = scripts(run)
    assert list(shown) == ["kgqa-graphlets", "kgqa-run", "kgqa-merge"]
    jobs = "".join(shown.values())
    assert re.findall(rf"#   .* (\w+) {run.path}$", jobs, re.MULTILINE) == names
    texts = "".join((SLURM / f"{name}.sbatch").read_text() for name in ("graphlets", "run_array", "merge"))
    commands = re.findall(r'"\$\{KGQA\[@\]\}" (\w+) "\$RUN"', texts)
    assert [name for name in commands if name != "requeue"] == names
    pipeline = re.findall(r"\w+(?=\.sbatch)", (SLURM / "pipeline.sh").read_text())
    assert [name for name in pipeline if name] == ["graphlets", "merge"], "and the one KGQA_RUN names"


def test_submitit_makes_of_it_what_the_dry_run_shows(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its executor is given a sbatch that keeps the script; compared are the #SBATCH lines but for output files."""
    kept = run.path.parent / "kept"
    kept.mkdir()
    keeping = f'n=$(ls {kept} | wc -l)\ncp "$1" {kept}/$n\necho Submitted batch job 1$n'
    monkeypatch.setenv("PATH", programs(kept.parent, sbatch=keeping))
    wishes = Resources(workers=3, partition="gpu", options={"qos": "low"})
    shown = submit(run.path, wishes, STAGES, dry_run=True)
    submit(run.path, wishes, STAGES)
    for number, job in enumerate(shown):
        lines = {line for line in (kept / str(number)).read_text().splitlines() if line.startswith("#SBATCH")}
        others = ("#SBATCH --output", "#SBATCH --error", "#SBATCH --dependency", "#SBATCH --kill-on-invalid")
        lines = {line for line in lines if not line.startswith((*others, "#SBATCH --nodes"))}
        assert lines == {line for line in job["script"].splitlines() if line.startswith("#SBATCH")}


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("graphlets", GRAPHLETS),
        ("merge", MERGE),
        ("run_array", {"gpus_per_task": 1, "cpus_per_task": 4, "mem": "32G", "signal": "B:USR1@900"}),
    ],
)
def test_the_scripts_ask_for_the_same_as_submitted_jobs(name: str, asks: dict[str, Any]) -> None:
    text = (SLURM / f"{name}.sbatch").read_text()
    header = " ".join(line for line in text.splitlines() if line.startswith("#SBATCH"))
    for option, value in asks.items():
        assert f"--{option.replace('_', '-')}={value}" in header.split()
    assert Resources() == Resources(cpus=4, memory="32G", gpus=1, time=2 * 86_400, notice=900)


@pytest.mark.usefixtures("_no_slurm")
def test_commands_run_in_the_image_when_one_is_given(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "llm.sif"
    monkeypatch.setenv("KGQA_LLM_IMAGE", str(image))
    with pytest.raises(InputError, match="no such file"):
        scripts(run)
    image.touch()
    monkeypatch.setenv("KGQA_BINDS", "/models")
    script = scripts(run)["kgqa-run"]
    assert f"apptainer exec --nv --bind {os.getcwd()},{tmp_path},/models {image} kgqa run" in script


@pytest.mark.usefixtures("_no_slurm")
def test_without_slurm_nothing_is_submitted_and_a_command_that_fails_fails_its_job(run: RunFolder) -> None:
    with pytest.raises(InputError, match="there is no sbatch here"):
        submit(run.path, Resources(), STAGES)
    assert slurm.recorded_jobs(run.logs) == []
    with pytest.raises(RuntimeError, match="false ended with exit code 1"):
        Commands([["/bin/true"], ["/bin/false"]], str(run.path), 1)()


@pytest.mark.slow
def test_on_this_machine_the_run_is_worked_through_and_the_job_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 60, engine={"kind": "scripted", "latency": {"per_request_s": 0.02}})
    jobs = submit(run.path, Resources(workers=2, time=3600), STAGES, cluster="local")
    assert [job["tasks"] for job in jobs] == [1, 1]
    assert slurm.recorded_jobs(run.logs) == [job["job"] for job in jobs]
    processes = [psutil.Process(int(job["job"])) for job in jobs]
    wait_for(lambda: all(map(gone, processes)), "the end of both jobs")
    assert len(records(run)) == 60
    assert (run.dataset / "accepted.jsonl").exists()


def test_a_chain_of_which_one_job_is_refused_is_not_submitted(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sbatch refuses the merge job, and a scancel keeps what it was given. Its error is told once."""
    refusing = f"""case "$(cat "$1")" in *merge*) echo no such memory >&2; exit 1;; esac
echo x >> {tmp_path}/jobs; echo Submitted batch job 1$(wc -l < {tmp_path}/jobs)"""
    scancel = f'echo "$*" >> {tmp_path}/cancelled'
    monkeypatch.setenv("PATH", programs(tmp_path, sbatch=refusing, scancel=scancel))
    run.anchors.unlink()
    refused = r"kgqa-merge could not be submitted: .*no such memory.*cancelled.*11, 12"
    with pytest.raises(InputError, match=refused), redirect_stderr(StringIO()) as printed:
        submit(run.path, Resources(), STAGES)
    assert "no such memory" not in printed.getvalue()
    assert (tmp_path / "cancelled").read_text() == "11 12\n"
    assert slurm.recorded_jobs(run.logs) == []


def test_the_site_file_of_the_scripts_gives_submitted_jobs_their_options(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.anchors.unlink()
    (tmp_path / "site.sh").write_text(
        'KGQA_SBATCH="--account=lab"\nKGQA_SBATCH_RUN="--partition=gpu --gres=gpu:a100:1 --mem=99G '
        '--time=02:00:00 --signal=B:USR1@60"\n'
        'export KGQA_SBATCH_MERGE="--time=20 --partition=cpu --mem=1G --exclusive"\n'
    )
    monkeypatch.setenv("KGQA_SITE", str(tmp_path / "site.sh"))
    shown = {name: text.replace("#SBATCH ", "").splitlines() for name, text in scripts(run, cpus=7).items()}
    assert all("--account=lab" in lines for lines in shown.values())
    asked = {"--partition=gpu", "--gres=gpu:a100:1", "--mem=99G", "--cpus-per-task=7"}
    assert asked <= set(shown["kgqa-run"])
    assert not any("gpus-per-task" in line for line in shown["kgqa-run"]), "gres says it"
    assert {"--partition=cpu", "--mem=1G", "--exclusive", "--signal=USR2@300"} <= set(shown["kgqa-merge"])
    assert {"--signal=USR2@60", "--time=02:00:00"} <= set(shown["kgqa-run"])
    assert "--mem=32G" in shown["kgqa-graphlets"]
    assert "--mem=48G" in scripts(run, memory="48G")["kgqa-run"], "what is asked for wins"
    monkeypatch.setenv("KGQA_SITE", str(tmp_path / "none.sh"))
    with pytest.raises(InputError, match="no such file"):
        scripts(run)


FAILED, STOPPED, KILLED = 1, 75, 137  # exit codes of `kgqa run`


@pytest.mark.parametrize(
    ("progress", "code", "restarts", "then"),
    [
        *((True, code, restarts, REQUEUE) for code, restarts in ((FAILED, 0), (STOPPED, 50), (KILLED, 1))),
        *((False, code, 0, REQUEUE) for code in (STOPPED, KILLED)),
        *((False, code, restarts, GIVE_UP) for code, restarts in ((FAILED, 0), (STOPPED, 1), (KILLED, 1))),
    ],
)
def test_a_start_that_kept_an_answer_goes_back_and_without_progress_a_stop_may_be_repeated_once(
    run: RunFolder, progress: bool, code: int, restarts: int, then: int
) -> None:
    mark = kgqa("requeue", run.path).stdout.strip()
    assert kgqa("requeue", run.path).stdout.strip() == mark
    if progress:
        run.results("main").mkdir(parents=True)
        path = run.results("main") / "shard-000000.w0.journal"
        with Journal(path, run.origin("main").header("shard-000000", "")) as journal:
            journal.append({"id": "i0", "status": "open"})
    words = ("--since", mark, "--exit-code", code, "--restarts", restarts)
    told = kgqa("requeue", run.path, *words, code=then).stderr
    assert (f"made no progress (exit code {code})" in told) is (then == GIVE_UP)
