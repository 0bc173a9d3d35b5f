"""The site profile: the file slurm/site/local.sh, which the scripts source, read for `kgqa submit`."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import kgqa_hpc
from kgqa_hpc.errors import InputError

_FILE = Path(kgqa_hpc.__file__).parents[1] / "slurm" / "site" / "local.sh"


def site_profile() -> dict[str, str]:
    """The variables KGQA_… of this environment, and those that the site's file sets: KGQA_SITE, else that of the
    checkout. Raises InputError for a file that is missing or fails.
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
