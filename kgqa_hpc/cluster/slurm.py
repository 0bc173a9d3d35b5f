"""Slurm: the jobs that work on a run, their state in the queue, and the site profile.

The site profile is the file slurm/site/local.sh, which the scripts source; `kgqa submit` reads it too.
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import kgqa_hpc
from kgqa_hpc.errors import InputError
from kgqa_hpc.store import canonical
from kgqa_hpc.store.atomic import append, disk_errors, make_folder, read_if_there
from kgqa_hpc.text.plain_text import clock_seconds

NAME = "jobs.jsonl"
PATIENCE = 5.0  # s for squeue; a busy controller must not block `kgqa status`


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
            continue  # a torn last line
    return list(jobs)


def own_job(environ: Mapping[str, str]) -> str | None:
    """The id of the job this process belongs to, of an array the array's."""
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
