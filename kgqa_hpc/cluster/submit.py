"""`kgqa submit`: the jobs of a run on Slurm, or on this machine, through submitit.

Three jobs chained by dependencies: graph and anchors (when they are missing), the workers (a job array),
dataset and report. A job runs plain `kgqa` commands as child processes. When submitit's signal comes, or a
command ends by itself before the limit (exit code 75), the child drains, and the job goes back into the
queue as long as starts bring progress.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kgqa_hpc.cluster.slurm import record_job
from kgqa_hpc.errors import InputError, StoppedEarly
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.run_folder import RunFolder

Cluster = Literal["slurm", "local"]
# submitit counts its own time-outs and gives up after three; a run may need a hundred jobs.
REQUEUES = 1_000_000
DRAIN = 600.0  # s that a drain may take; Slurm kills the job if it takes longer than its notice


@dataclass
class Commands:
    """What a job does: `kgqa` commands one after the other. submitit pickles it, and again when it
    requeues.
    """

    commands: list[list[str]]
    run: str
    notice: float  # s between submitit's signal and the limit

    def __call__(self) -> None:
        self._mark = progress_mark(Path(self.run))
        for command in self.commands:
            process = subprocess.Popen(command, preexec_fn=_ignore_warnings)
            self._child = process.pid
            while process.poll() is None:
                time.sleep(0.1)
            if process.returncode == StoppedEarly.exit_code:
                # submitit's own way to requeue: its handler calls checkpoint() and does not return.
                os.kill(os.getpid(), submitit_signal())
                time.sleep(DRAIN)
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")

    def checkpoint(self) -> Any:
        """Called by submitit inside its signal handler: have the child drain, then hand the same work on.

        None, so that the job ends, when this start has kept nothing: the next one would not either.
        """
        from submitit.helpers import DelayedSubmission

        self._drain()
        now = progress_mark(Path(self.run))
        print(f"stopped; kept at the start {self._mark}, now {now}", flush=True)
        if now == self._mark:
            return None
        return DelayedSubmission(Commands(self.commands, self.run, self.notice))

    def _drain(self) -> None:
        # Not Popen.wait: the interrupted main thread may be inside it. Again and again: it may still be
        # starting.
        until = time.monotonic() + min(self.notice, DRAIN)
        while not _has_ended(self._child) and time.monotonic() < until:
            os.kill(self._child, signal.SIGUSR1)
            time.sleep(0.5)


def _ignore_warnings() -> None:
    """In the child, until it has handlers of its own: Slurm signals every process of a step, also
    starting ones.
    """
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def submitit_signal() -> signal.Signals:
    """The signal submitit listens to."""
    from submitit.core.job_environment import JobEnvironment

    number: signal.Signals = JobEnvironment._usr_sig()
    return number


def progress_mark(run: Path) -> str:
    """Changes whenever an answer is kept."""
    now = survey(run)
    return f"{now['shards']['done']} shards, {now['journal_answers']} answers in journals"


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


@dataclass(frozen=True)
class Plan:
    """One job to submit. `after`: it starts when the job before has succeeded."""

    name: str
    work: Commands
    count: int
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Resources:
    """What each worker's job asks of Slurm. `options` go into #SBATCH lines as they are."""

    workers: int = 1
    time: float = 2 * 86_400.0  # s
    gpus: int = 1
    cpus: int = 4
    memory: str = "32G"
    partition: str | None = None
    account: str | None = None
    notice: int = 900  # s before the limit at which the workers are told; at most a quarter of the time
    options: dict[str, str] = field(default_factory=dict)


def submit(
    folder: Path, resources: Resources, *, cluster: Cluster = "slurm", dry_run: bool = False
) -> list[dict[str, Any]]:
    """Submit all jobs that the run still needs; returns one {"name", "job", "tasks"} per job.

    With `dry_run` nothing is submitted and the jobs carry their "script" instead of an id. Raises
    InputError when submitit is not installed, there is no Slurm, or Slurm refuses.
    """
    run = RunFolder.open(folder)
    plans = _plans(run, resources, cluster)
    submitted: list[dict[str, Any]] = []
    job = None
    for plan in plans:
        executor = _executor(run, plan, resources, cluster, after=job, dry_run=dry_run)
        if dry_run:
            entry = {"name": plan.name, "tasks": plan.count, "script": _script(executor, plan)}
        else:
            job = _submit(executor, plan)
            record_job(run.logs, job, plan.name)
            entry = {"name": plan.name, "tasks": plan.count, "job": job}
        submitted.append(entry)
    return submitted


def _plans(run: RunFolder, resources: Resources, cluster: Cluster) -> list[Plan]:
    path = str(run.path.resolve())
    llm, graph = (_kgqa(os.environ.get(name), path) for name in ("KGQA_LLM_IMAGE", "KGQA_GRAPH_IMAGE"))
    prepare = [[*graph, "import", path], [*graph, "sample", path]]
    work = [[*llm, "run", path]]
    collect = [[*graph, "merge", path], [*graph, "report", path]]
    missing = not run.anchors.exists()

    def commands(*parts: list[list[str]]) -> Commands:
        return Commands([command for part in parts for command in part], path, _notice(resources))

    if cluster == "local":
        if missing and resources.workers > 1:
            raise InputError(f"{run.anchors} is missing", f"first: kgqa sample {run.path}")
        first = commands(prepare if missing else [], work, collect)
        others = (
            [Plan("kgqa-run", commands(work), resources.workers - 1, {})] if resources.workers > 1 else []
        )
        return [Plan("kgqa-all", first, 1, {}), *others]
    processors = {"cpus_per_task": resources.cpus, "mem": resources.memory}
    gpus = {"gpus_per_task": resources.gpus} if resources.gpus else {}
    plans = [Plan("kgqa-graphlets", commands(prepare), 1, processors)] if missing else []
    plans.append(Plan("kgqa-run", commands(work), resources.workers, {**processors, **gpus}))
    return [*plans, Plan("kgqa-merge", commands(collect), 1, processors)]


def _notice(resources: Resources) -> int:
    return min(resources.notice, int(resources.time // 4))


def _kgqa(image: str | None, run: str) -> list[str]:
    """The words that run kgqa on a node: in the image, or with this very Python."""
    if not image:
        return [sys.executable, "-m", "kgqa_hpc"]
    if not Path(image).is_file():
        raise InputError(f"image {image}: no such file", "build it with containers/build.sh")
    binds = ",".join([os.getcwd(), str(Path(run).parent), *filter(None, [os.environ.get("KGQA_BINDS")])])
    options = os.environ.get("KGQA_APPTAINER", "--nv").split()
    return ["apptainer", "exec", *options, "--bind", binds, str(Path(image).resolve()), "kgqa"]


def _executor(
    run: RunFolder, plan: Plan, resources: Resources, cluster: Cluster, *, after: str | None, dry_run: bool
) -> Any:
    try:
        import submitit
    except ImportError:
        raise InputError("submitit is not installed", "pip install 'kgqa_hpc[slurm]'") from None
    folder = run.logs.resolve() / "submitit" / "%j"
    minutes = max(int(resources.time // 60), 1)
    if cluster == "local":
        executor: Any = submitit.LocalExecutor(folder, max_num_timeout=REQUEUES)
        executor.update_parameters(timeout_min=minutes, signal_delay_s=_notice(resources))
        return executor
    try:
        executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES)
    except RuntimeError:
        if not dry_run:
            raise InputError(
                "there is no sbatch here", "log in where Slurm is, or use --cluster local"
            ) from None
        executor = _without_slurm(submitit, folder)
    more: dict[str, Any] = {"requeue": True, **resources.options}
    if after is not None:
        more |= {"dependency": f"afterok:{after}", "kill-on-invalid-dep": "yes"}
    executor.update_parameters(
        job_name=plan.name,
        time=minutes,
        signal_delay_s=_notice(resources),
        additional_parameters=more,
        ntasks_per_node=1,
        **{key: value for key in ("partition", "account") if (value := getattr(resources, key))},
        **plan.parameters,
    )
    return executor


def _without_slurm(submitit: Any, folder: Path) -> Any:
    """An executor that can only show its script: a dry run needs no cluster."""
    executor = submitit.SlurmExecutor.__new__(submitit.SlurmExecutor)
    executor.python = sys.executable
    submitit.core.core.PicklingExecutor.__init__(executor, folder, max_num_timeout=REQUEUES)
    return executor


def _script(executor: Any, plan: Plan) -> str:
    words = "\n".join(f"#   {' '.join(command)}" for command in plan.work.commands)
    if plan.name == "kgqa-all" or not plan.parameters:
        return f"# {plan.count} process(es) on this machine, each running\n{words}\n"
    if plan.count > 1:
        executor.parameters["map_count"] = plan.count
    text = executor._make_submission_file_text(executor._submitit_command_str, "dry-run")
    return f"{text}\n# which runs\n{words}\n"


def _submit(executor: Any, plan: Plan) -> str:
    from submitit.core.utils import FailedJobError

    try:
        jobs: Sequence[Any] = executor.submit_array([plan.work] * plan.count)
    except (FailedJobError, OSError) as problem:
        reason = " ".join(str(problem).split())
        raise InputError(
            f"{plan.name} could not be submitted: {reason}", "mend it and submit again"
        ) from problem
    return str(jobs[0].job_id).split("_")[0]
