"""Slurm: the jobs of a run with their commands and resources, their state in the queue, and the site profile.

`kgqa submit` passes the jobs to submitit, or prints them. The scripts in slurm/ request the same by default; a test
compares them. The site profile is the file slurm/site/local.sh, which the scripts source; `kgqa submit` reads it too.
"""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import kgqa_hpc
from kgqa_hpc.errors import InputError
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import append, disk_errors, make_folder, read_if_there
from kgqa_hpc.store.run_folder import RunFolder
from kgqa_hpc.text.plain_text import clock_seconds, shell_word

NAME = "jobs.jsonl"
PATIENCE = 5.0  # longest wait for squeue in seconds; a busy controller must not block `kgqa status`


def record_job(logs: Path, job: str, description: str) -> None:
    """Note, once, that a job belongs to the run. Raises DiskFull, StoreError."""
    if job in recorded_jobs(logs):
        return
    make_folder(logs)
    path = logs / NAME
    line = canonical.dumps({"time": round(time.time(), 1), "job": job, "what": description})
    with disk_errors(path):
        append(path, line + b"\n")


def recorded_jobs(logs: Path) -> list[str]:
    """The ids of all jobs noted, oldest first, each once."""
    jobs: dict[str, None] = {}
    for line in (read_if_there(logs / NAME) or b"").split(b"\n"):
        try:
            jobs[str(canonical.loads(line)["job"])] = None
        except (ValueError, TypeError, KeyError):
            continue  # the last line was torn by a killed process
    return list(jobs)


def own_job(environ: Mapping[str, str]) -> str | None:
    """The id of this process's job; for a task of a job array, the id of the array."""
    return environ.get("SLURM_ARRAY_JOB_ID") or environ.get("SLURM_JOB_ID")


def job_end(environ: Mapping[str, str], ask: bool) -> float | None:
    """The time at which Slurm ends this process's job, in seconds since 1970; None if it is unknown.

    Slurm 23.02 and later, and the scripts in slurm/, set SLURM_JOB_END_TIME. Without it, and with `ask`, the controller
    is asked (not by thousands of ranks at once).
    """
    job = environ.get("SLURM_JOB_ID")
    if job is None:
        return None
    end_time = environ.get("SLURM_JOB_END_TIME", "")
    if end_time.isdigit():
        return float(end_time)
    if "SLURM_ARRAY_JOB_ID" in environ:  # one task has the array's id, for which squeue lists all tasks
        job = f"{environ['SLURM_ARRAY_JOB_ID']}_{environ['SLURM_ARRAY_TASK_ID']}"
    answer = _squeue("--jobs", job, "--format=%L") if ask else None
    remaining = clock_seconds(answer or "")
    return None if remaining is None else time.time() + remaining


def queue_state(logs: Path) -> list[dict[str, str]] | None:
    """The run's jobs that are pending or running: id, name, state, left (D-HH:MM:SS), reason.

    None without Slurm, or if it does not answer.
    """
    jobs = recorded_jobs(logs)[-100:]
    # squeue fails for jobs that have ended, so list all jobs of the user and choose.
    answer = _squeue("--me", "--format=%F|%i|%j|%T|%L|%r") if jobs else None
    if answer is None:
        return None
    rows = [line.split("|") for line in answer.splitlines()]
    names = ("id", "name", "state", "left", "reason")
    return [dict(zip(names, row[1:], strict=True)) for row in rows if len(row) == 6 and row[0] in jobs]


def _squeue(*options: str) -> str | None:
    """The output of squeue; None if squeue is missing, fails, or takes too long."""
    if shutil.which("squeue") is None:
        return None
    try:
        answer = subprocess.run(
            ["squeue", "--noheader", *options], capture_output=True, text=True, timeout=PATIENCE
        )
    except (subprocess.TimeoutExpired, OSError):
        return None
    return answer.stdout if answer.returncode == 0 else None


_FILE = Path(kgqa_hpc.__file__).parents[1] / "slurm" / "site" / "local.sh"


def site_profile() -> dict[str, str]:
    """Variables KGQA_… of the environment and of the site's file (KGQA_SITE, or slurm/site/local.sh of the checkout).

    Raises InputError if the file is missing or fails.
    """
    environment = {name: value for name, value in os.environ.items() if name.startswith("KGQA_")}
    file = Path(environment["KGQA_SITE"]) if environment.get("KGQA_SITE") else _FILE
    if not file.is_file():
        if "KGQA_SITE" in environment:
            raise InputError(f"KGQA_SITE={file}: no such file", "slurm/site/example.sh is one to copy")
        return environment
    command = ["bash", "-c", 'set -ea; source "$1" >&2; env -0', "bash", str(file.resolve())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(
            f"{file}: ends with exit code {done.returncode}: {done.stderr.strip()}", "mend the file"
        )
    lines = (line.partition("=") for line in done.stdout.split("\0"))
    return {name: value for name, _, value in lines if name.startswith("KGQA_")}


def sbatch_options(profile: Mapping[str, str], job: str) -> dict[str, str | bool]:
    """Options of sbatch for a job (kgqa-run: KGQA_SBATCH, then KGQA_SBATCH_RUN), named with underscores."""
    short = job.removeprefix("kgqa-").upper()
    options: dict[str, str | bool] = {}
    for name in ("KGQA_SBATCH", f"KGQA_SBATCH_{short}"):
        for word in shlex.split(profile.get(name, "")):
            key, equals, value = word.removeprefix("--").partition("=")
            if not word.startswith("--") or not key:
                raise InputError(f"{name}: {word!r} is no option of sbatch", "write --NAME=VALUE")
            options[key.replace("-", "_")] = value if equals else True
    return options


# Resources of jobs without a GPU: counting uses all cores, merging needs little memory.
GRAPHLETS: dict[str, Any] = {"cpus_per_task": 16, "mem": "32G"}
MERGE: dict[str, Any] = {"cpus_per_task": 2, "mem": "8G"}
# Slurm's early warning signal as submitit requests it; SUBMITIT_PREEMPT_SIGNAL names another.
WARNING = "USR2"


@dataclass(frozen=True)
class Resources:
    """Resources of each worker's job, and of the job that reads and samples the graph (`graph_…`).

    `options` go into #SBATCH lines as they are.
    """

    workers: int = 1
    time: float = 2 * 86_400.0  # time limit of a job in seconds
    gpus: int = 1
    cpus: int = 4
    memory: str = "32G"
    graph_cpus: int = GRAPHLETS["cpus_per_task"]
    graph_memory: str = GRAPHLETS["mem"]
    partition: str | None = None
    account: str | None = None
    notice: int = 900  # seconds of warning before the limit; at most a quarter of the time
    options: dict[str, str] = field(default_factory=dict)

    @property
    def warning_s(self) -> int:
        """Seconds between the early warning and the time limit."""
        return min(self.notice, int(self.time // 4))

    @property
    def minutes(self) -> int:
        return max(int(self.time // 60), 1)


# Default values, which the site's profile replaces.
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "time": (Resources().minutes,),
    "cpus_per_task": (Resources().cpus, GRAPHLETS["cpus_per_task"], MERGE["cpus_per_task"]),
    "mem": (Resources().memory, GRAPHLETS["mem"], MERGE["mem"]),
    "gpus_per_task": (Resources().gpus,),
}


class Job(NamedTuple):
    """One job, or an array of `count` jobs: runs `commands` in order, each a list of words."""

    name: str
    commands: list[list[str]]
    tasks: int = 1
    asks: Mapping[str, Any] = {}  # requested resources, by submitit's names for sbatch options


def jobs_of(run: RunFolder, resources: Resources, stages: Sequence[Any], *, local: bool) -> list[Job]:
    """The jobs that the run still needs; each starts when the previous one has succeeded.

    `stages` are those of kgqa_hpc/stages.py. Those before the GPU stage form one job, and so do those after it.

    `local`: processes on this machine; the first does the work that the others wait for.
    """
    path, site = str(run.path.resolve()), site_profile()
    llm, graph = (_kgqa(site, name, path) for name in ("KGQA_LLM_IMAGE", "KGQA_GRAPH_IMAGE"))
    workers = next(index for index, stage in enumerate(stages) if stage.gpus)
    sample = stages[workers - 1]
    prepared = (run.path / sample.makes).exists()
    prepare = [] if prepared else [[*graph, stage.name, path] for stage in stages[:workers]]
    work = [[*llm, stages[workers].name, path]]
    collect = [[*graph, stage.name, path] for stage in stages[workers + 1 :]]
    if local:
        if prepare and resources.workers > 1:
            problem = f"{run.path / sample.makes} is missing"
            raise InputError(problem, f"first: kgqa {sample.name} {shell_word(run.path)}")
        helpers = [Job("kgqa-run", work, resources.workers - 1)] if resources.workers > 1 else []
        return [Job("kgqa-all", [*prepare, *work, *collect]), *helpers]
    asks: dict[str, Any] = {"cpus_per_task": resources.cpus, "mem": resources.memory}
    if resources.gpus:
        asks["gpus_per_task"] = resources.gpus
    counting = {"cpus_per_task": resources.graph_cpus, "mem": resources.graph_memory}
    jobs = [Job("kgqa-graphlets", prepare, asks=counting)] if prepare else []
    return [*jobs, Job("kgqa-run", work, resources.workers, asks), Job("kgqa-merge", collect, asks=MERGE)]


def parameters(job: Job, resources: Resources) -> dict[str, Any]:
    """The parameters of submitit's executor, by its names for sbatch options.

    Options of the command override the site's profile, and the profile overrides the defaults. Partition and `options`
    apply to the workers only; a job without a GPU gets those of the profile, or the cluster's defaults.
    """
    works = job.name == "kgqa-run"
    asked = {
        "job_name": job.name,
        "time": resources.minutes,
        "signal_delay_s": resources.warning_s,
        "ntasks_per_node": 1,
        "array_parallelism": job.tasks,
        "wckey": None,
        "partition": resources.partition if works else None,
        "account": resources.account,
        **job.asks,
    }
    options: dict[str, str | bool] = {"requeue": True}
    for key, value in sbatch_options(site_profile(), job.name).items():
        if key == "signal":  # only its time: another signal, or one to the batch shell, would end the job
            notice = str(value).partition("@")[2]
            asked["signal_delay_s"] = int(notice) if notice.isdigit() else 60  # Slurm's default: 60 s
        elif key not in asked:
            options[key.replace("_", "-")] = value
        elif asked[key] in _DEFAULTS.get(key, (None,)):
            asked[key] = value
            limit = clock_seconds(f"{value}:00" if str(value).isdigit() else str(value))
            if key == "time" and limit:
                asked["signal_delay_s"] = min(asked["signal_delay_s"], int(limit // 4))
    if "gres" in options:
        asked.pop("gpus_per_task", None)
    return {**asked, "additional_parameters": {**options, **(resources.options if works else {})}}


def script(job: Job, resources: Resources, *, local: bool) -> str:
    """The job as a batch script: #SBATCH lines and commands."""
    words = "\n".join(f"#   {shlex.join(command)}" for command in job.commands)
    if local:
        return f"# {job.tasks} process(es) on this machine, each running\n{words}\n"
    asked = parameters(job, resources)
    warning = os.environ.get("SUBMITIT_PREEMPT_SIGNAL", WARNING)
    asked["signal"] = f"{warning}@{asked.pop('signal_delay_s')}"
    asked |= {"open-mode": "append", **asked.pop("additional_parameters")}
    together = asked.pop("array_parallelism")
    if job.tasks > 1:
        asked["array"] = f"0-{job.tasks - 1}%{together}"
    lines = [
        f"#SBATCH --{key.replace('_', '-')}" + ("" if value is True else f"={value}")
        for key, value in sorted(asked.items())
        if value is not None
    ]
    return "\n".join(["#!/bin/bash", *lines, "# which runs", words, ""])


def _kgqa(site: Mapping[str, str], name: str, run: str) -> list[str]:
    """The words that run kgqa on a node: in the image that the site profile names, or with the present Python."""
    image = site.get(name)
    if not image:
        return [sys.executable, "-m", "kgqa_hpc"]
    if not Path(image).is_file():
        raise InputError(f"image {image}: no such file", "build it with containers/build.sh")
    binds = ",".join([os.getcwd(), str(Path(run).parent), *filter(None, [site.get("KGQA_BINDS")])])
    options = site.get("KGQA_APPTAINER", "--nv").split()
    return ["apptainer", "exec", *options, "--bind", binds, str(Path(image).resolve()), "kgqa"]
