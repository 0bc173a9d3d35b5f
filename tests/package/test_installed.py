"""What `pip install` gives, outside the clone: the wheel and the source archive are whole, on every Python we name.

They are built from this checkout and installed with all they depend on into fresh environments, by uv, which takes
seconds for what takes pip a minute. Needs PyPI. A Python that is not here is fetched where uv can; where it cannot, the
skipped test says so.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgqa_hpc import __version__
from tests.project import write_graph

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAMED = [found[1] for line in PROJECT["classifiers"] if (found := re.search(r":: (3\.\d+)$", line))]
CLEAN = {"UV_HTTP_TIMEOUT": "300"} | {  # s; a mirror may be slow
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "VIRTUAL_ENV", "SLURM_", "OMPI_", "PMI"))
}
PATIENCE = 900
HELD = ("git", "ls-files", "--cached", "--others", "--exclude-standard")  # also what is about to be committed


def shell(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=CLEAN, capture_output=True, text=True, timeout=PATIENCE
    )


def output(*command: object, cwd: Path) -> str:
    done = shell(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@dataclass(frozen=True)
class Built:
    """The two archives, and the uv that installs them."""

    wheel: Path
    sdist: Path
    uv: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    output(sys.executable, "-m", "venv", folder / "tools", cwd=folder)
    got = shell(folder / "tools/bin/python", "-m", "pip", "install", "--quiet", "hatchling", "uv", cwd=folder)
    if got.returncode:
        pytest.skip(f"WHEEL AND SDIST ARE NOT TESTED: PyPI cannot be reached ({got.stderr.strip()[-200:]})")
    output(folder / "tools/bin/python", "-m", "hatchling", "build", "-d", folder / "dist", cwd=ROOT)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    return Built(wheel, sdist, folder / "tools/bin/uv")


def interpreter(python: str) -> str:
    """Where a Python lies that pyenv made, which uv looks past; else its version, for uv to find or to fetch."""
    made = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return str(next(iter(sorted(made.glob(f"{python}.*/bin/python"), reverse=True)), python))


def dataset_of(kgqa: list[object], folder: Path) -> str:
    """Make a small dataset in an empty folder as a newcomer does; the digest of its records."""
    write_graph(folder)
    config = folder / "mine.yaml"
    output(*kgqa, "init", "--example", "csv", config, cwd=folder)
    text = config.read_text(encoding="utf-8")
    text = re.sub(r"kind: openai[^\n]*\n  model:[^\n]*\n  base_url:[^\n]*", "kind: scripted", text)
    text = text.replace("kind: graphlet, per_shape: 100", "kind: path, number: 30")
    config.write_text(text, encoding="utf-8")
    told = output(*kgqa, "--quiet", "all", config, "run", cwd=folder)
    assert told.splitlines()[0] == "dataset  run/dataset"
    assert (folder / "run/report/index.html").stat().st_size > 10_000
    files = (folder / f"run/dataset/{name}.jsonl" for name in ("accepted", "rejected", "lost"))
    records = b"".join(file.read_bytes() for file in files)
    assert records.count(b"\n") == 30
    return hashlib.sha256(records).hexdigest()


@pytest.fixture(scope="module")
def of_the_clone(tmp_path_factory: pytest.TempPathFactory) -> str:
    clone: list[object] = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "kgqa_hpc"]
    return dataset_of(clone, tmp_path_factory.mktemp("clone"))


def test_the_wheel_holds_what_a_run_needs_and_nothing_else(built: Built) -> None:
    names = zipfile.ZipFile(built.wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"kgqa_hpc", f"kgqa_hpc-{__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".sif"))]
    tracked = set(output(*HELD, "kgqa_hpc", "prompts", "configs", cwd=ROOT).splitlines())
    shipped = {name.replace("kgqa_hpc/_shipped/", "") for name in names if ".dist-info" not in name}
    assert shipped == tracked
    assert {"prompts/p5.md", "configs/examples/csv.yaml"} < shipped


def test_the_source_archive_holds_what_git_holds(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = output(*HELD, cwd=ROOT).splitlines()
    assert {name for name in tracked if not name.startswith(".ci/")} - names == set()


@pytest.mark.parametrize("python", NAMED)
def test_installed_outside_the_clone_it_makes_the_same_dataset_on_every_python_we_name(
    python: str, built: Built, of_the_clone: str, tmp_path: Path
) -> None:
    venv = ("venv", "--quiet", "--python", interpreter(python), tmp_path / "venv")
    made = shell(built.uv, *venv, cwd=tmp_path)
    if made.returncode:
        pytest.skip(f"PYTHON {python} IS NOT HERE AND CANNOT BE FETCHED, NOT TESTED: {made.stderr[-200:]}")
    archive = built.sdist if python == NAMED[0] else built.wheel
    fresh = tmp_path / "venv/bin/python"
    output(built.uv, "pip", "install", "--quiet", "--python", fresh, archive, cwd=tmp_path)
    program = "import kgqa_hpc, sys; print(kgqa_hpc.__file__, *sys.version_info[:2])"
    where = output(fresh, "-c", program, cwd=tmp_path)
    assert where.startswith(f"{tmp_path}/venv/")
    assert where.split()[1:] == python.split(".")
    kgqa = tmp_path / "venv/bin/kgqa"
    assert output(kgqa, "--version", cwd=tmp_path) == f"kgqa {__version__}\n"
    (tmp_path / "work").mkdir()
    assert dataset_of([kgqa], tmp_path / "work") == of_the_clone
