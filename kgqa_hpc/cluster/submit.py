"""`kgqa submit`: the jobs of a run on Slurm, or on this machine, through submitit; and when a job is queued again.

A job runs plain `kgqa` commands as child processes. When submitit's signal comes, or a command ends by itself
before the limit (exit code 75), the child drains, and the job goes back into the queue as long as starts
bring progress. Only the documented interface of submitit is used: an executor, and a callable with `checkpoint`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from kgqa_hpc.cluster.slurm import WARNING, Job, Resources, jobs_of, parameters, record_job, script
from kgqa_hpc.errors import InputError, StoppedEarly
from kgqa_hpc.status.snapshot import survey
from kgqa_hpc.store.run_folder import RunFolder

Cluster = Literal["slurm", "local"]
DONE, REQUEUE, GIVE_UP = 0, StoppedEarly.exit_code, 1  # exit codes of `kgqa requeue`
# submitit counts its own time-outs and gives up after three; a run may need a hundred jobs.
REQUEUES = 1_000_000
DRAIN = 600.0  # longest drain in seconds; Slurm kills the job if the drain takes longer than its notice


@dataclass
class Commands:
    """The `kgqa` commands of a job, run in order. submitit pickles this object, also when it requeues the job."""

    commands: list[list[str]]
    run: str
    notice: float  # seconds between submitit's signal and the time limit
    restarts: int = 0

    def __call__(self) -> None:
        self._mark = progress_mark(survey(Path(self.run)))
        for command in self.commands:
            process = subprocess.Popen(command, preexec_fn=_ignore_warnings)
            self._child = process.pid
            while process.poll() is None:
                time.sleep(0.1)
            if process.returncode == REQUEUE:
                # Send the signal of a near time limit: submitit calls checkpoint(), requeues, and does not return.
                warning = os.environ.get("SUBMITIT_PREEMPT_SIGNAL", WARNING)
                os.kill(os.getpid(), signal.Signals[f"SIG{warning}"])
                time.sleep(DRAIN)
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}")

    def checkpoint(self) -> Any:
        """Called by submitit on its signal: make the child drain, then return the same work for the next start.

        Returns None, which ends the job, if another start would be pointless.
        """
        from submitit.helpers import DelayedSubmission

        # Popen.wait is not used, because the interrupted main thread may be inside it. The signal is repeated, because
        # a child that is still starting ignores it.
        until = time.monotonic() + min(self.notice, DRAIN)
        while not _has_ended(self._child) and time.monotonic() < until:
            os.kill(self._child, signal.SIGUSR1)
            time.sleep(0.5)
        now = progress_mark(survey(Path(self.run)))
        print(f"stopped; stored at the start: {self._mark}; now: {now}", flush=True)
        if brings_nothing(self._mark, now, REQUEUE, self.restarts):
            return None
        return DelayedSubmission(replace(self, restarts=self.restarts + 1))


def submit(
    folder: Path,
    resources: Resources,
    stages: Sequence[Any],
    *,
    cluster: Cluster = "slurm",
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """Submit all jobs that the run still needs for `stages`; returns one {"name", "job", "tasks"} per job.

    With `dry_run` nothing is submitted, neither Slurm nor submitit is needed, and the jobs have a "script" instead of
    an id. Raises InputError when submitit is not installed, there is no Slurm, or Slurm refuses.
    """
    run, local = RunFolder.open(folder), cluster == "local"
    submitted: list[dict[str, Any]] = []
    for job in jobs_of(run, resources, stages, local=local):
        entry: dict[str, Any] = {"name": job.name, "tasks": job.tasks}
        if dry_run:
            entry["script"] = script(job, resources, local=local)
        else:
            before = [str(earlier["job"]) for earlier in submitted]
            entry["job"] = _submit(run, job, resources, before, local=local)
        submitted.append(entry)
    for entry in submitted if not dry_run else ():
        record_job(run.logs, entry["job"], entry["name"])
    return submitted


def _submit(run: RunFolder, job: Job, resources: Resources, before: Sequence[str], *, local: bool) -> str:
    """Submit a job that starts when the jobs `before` it have succeeded; returns its id.

    If it is refused, those jobs are cancelled: a part of a chain is useless.
    """
    try:
        import submitit
    except ImportError:
        raise InputError("submitit is not installed", "pip install 'kgqa_hpc[slurm]'") from None
    folder = run.logs.resolve() / "submitit" / "%j"
    if "%" in str(run.logs.resolve()):
        raise InputError(f"{run.path}: submitit reads % in paths as its own", "rename the folder")
    if local:
        executor: Any = submitit.LocalExecutor(folder, max_num_timeout=REQUEUES)
        executor.update_parameters(timeout_min=resources.minutes, signal_delay_s=resources.warning_s)
    else:
        try:
            executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES)
        except RuntimeError:
            cure = "log in where Slurm is, or use --cluster local"
            raise InputError("there is no sbatch here", cure) from None
        asked = parameters(job, resources)
        if before:
            chained = {"dependency": f"afterok:{before[-1]}", "kill-on-invalid-dep": "yes"}
            asked["additional_parameters"] |= chained
        executor.update_parameters(**asked)
    work = Commands(job.commands, str(run.path.resolve()), resources.warning_s)
    try:
        with redirect_stderr(StringIO()):  # submitit prints sbatch's error; its exception has it too
            jobs: Sequence[Any] = executor.submit_array([work] * job.tasks)
    except (RuntimeError, OSError) as problem:  # FailedJobError of submitit is a RuntimeError
        reason = f"{job.name} could not be submitted: {' '.join(str(problem).split())}"
        if before and not local:
            subprocess.run(["scancel", *before], check=False)
            reason += f"; cancelled, for nothing runs without it: {', '.join(before)}"
        raise InputError(reason, "mend it and submit again") from problem
    return str(jobs[0].job_id).split("_")[0]


def _ignore_warnings() -> None:
    """Ignore Slurm's early warnings, which would end a child that has not set its handlers yet."""
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def progress_mark(status: Mapping[str, Any]) -> str:
    """A text that changes whenever an answer is stored."""
    return f"{status['shards']['done']} shards, {status['journal_answers']} answers in journals"


def brings_nothing(before: str, now: str, exit_code: int, restarts: int) -> bool:
    """Whether another start is pointless: this start stored no answer, and failed by itself or was stopped twice.

    A stop has exit code 75, or above 128 for a signal.
    """
    stopped = exit_code == StoppedEarly.exit_code or exit_code > 128
    return now == before and not (stopped and restarts == 0)


def decide(
    run: Path, status: Mapping[str, Any], before: str, exit_code: int, restarts: int
) -> tuple[int, str]:
    """Decide whether a job whose workers ended with `exit_code` is queued again: DONE, REQUEUE or GIVE_UP, and why.

    `before` is the mark at its start, `restarts` the number of its earlier starts.
    """
    if status["complete"]:
        return DONE, f"complete: {run}"
    if brings_nothing(before, progress_mark(status), exit_code, restarts):
        return GIVE_UP, (
            f"error: this start made no progress (exit code {exit_code}); not requeued\n"
            f"       see above and {run}/logs, mend it, and submit again: what is done stays done"
        )
    return REQUEUE, f"not complete yet (exit code {exit_code}): back into the queue"
