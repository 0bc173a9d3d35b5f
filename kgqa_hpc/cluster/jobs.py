"""The jobs of a run on Slurm: the commands and the resources of each.

`kgqa submit` passes them to submitit, or prints them. The scripts in slurm/ request the same by default; a test
compares them.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kgqa_hpc.cluster.slurm import sbatch_options, site_profile
from kgqa_hpc.errors import InputError
from kgqa_hpc.store.run_folder import RunFolder

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
    time: float = 2 * 86_400.0  # s
    gpus: int = 1
    cpus: int = 4
    memory: str = "32G"
    graph_cpus: int = GRAPHLETS["cpus_per_task"]
    graph_memory: str = GRAPHLETS["mem"]
    partition: str | None = None
    account: str | None = None
    notice: int = 900  # s before the limit at which the workers are warned; at most a quarter of the time
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


class Stage(Protocol):
    """A stage (kgqa_hpc/stages.py) for a job: its command, the path it writes, and whether workers with GPUs do it."""

    @property
    def name(self) -> str: ...
    @property
    def makes(self) -> str: ...
    @property
    def gpus(self) -> bool: ...


class Job(NamedTuple):
    """One job, or an array of `count` jobs: runs `commands` in order, each a list of words."""

    name: str
    commands: list[list[str]]
    tasks: int = 1
    asks: Mapping[str, Any] = {}  # its resources, by submitit's names for options of sbatch


def jobs_of(run: RunFolder, resources: Resources, stages: Sequence[Stage], *, local: bool) -> list[Job]:
    """The jobs that the run still needs; each starts when the previous one has succeeded.

    The stages before the GPU stage form one job, and so do those after it.

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
            raise InputError(problem, f"first: kgqa {sample.name} {run.path}")
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
        if key not in asked:
            options[key.replace("_", "-")] = value
        elif asked[key] in _DEFAULTS.get(key, (None,)):
            asked[key] = value
    if "gres" in options:
        asked.pop("gpus_per_task", None)
    return {**asked, "additional_parameters": {**options, **(resources.options if works else {})}}


def script(job: Job, resources: Resources, *, local: bool) -> str:
    """The job as a batch script: #SBATCH lines and commands."""
    words = "\n".join(f"#   {' '.join(command)}" for command in job.commands)
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
