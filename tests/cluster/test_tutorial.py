"""docs/tutorial/2-cluster.md is true: its commands run on the one-host Slurm, in order, in one folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cluster.conftest import ROOT, Slurm, make_place, needs_slurm
from tests.cluster.test_slurm import jobs_of

pytestmark = [needs_slurm, pytest.mark.cluster, pytest.mark.slow]
PAGE = ROOT / "docs" / "tutorial" / "2-cluster.md"


def test_every_command_of_the_cluster_tutorial_runs(tmp_path: Path, slurm: Slurm) -> None:
    place = make_place(tmp_path / "here", slurm.environ)
    for name in ("slurm", "configs"):
        (place.folder / name).symlink_to(ROOT / name)
    before, after = (
        "\n".join(re.findall(r"^```bash\n(.*?)^```$", part, flags=re.MULTILINE | re.DOTALL))
        for part in PAGE.read_text("utf-8").split("<!-- the tests wait for the jobs here -->")
    )
    head = f"kgqa() {{ '{sys.executable}' -m kgqa_hpc -q \"$@\"; }}\nset -euo pipefail\n"
    output = place("bash", "-c", head + before)
    lines = "\n".join(line for line in output.splitlines() if re.match(r"(graphlets|run|merge) +\d+", line))
    slurm.wait(jobs_of(lines)["merge"])
    assert "· complete" in place("bash", "-c", head + after)
    assert (place.folder / "upload" / "README.md").exists()
    assert not (place.run("runs/rehearsal").path / "logs").exists()
