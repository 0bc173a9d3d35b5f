"""containers/build.sh by itself: what it refuses and with which cure, and what it asks of apptainer.

No image is built: where apptainer is called at all, a stand-in writes down how.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import kgqa_hpc

BUILD = Path(__file__).resolve().parents[2] / "containers" / "build.sh"

BASICS = """
awk bash cat cut date dirname env git grep id mkdir mktemp python3 realpath rm sed tail true unshare
"""


def bare(folder: Path, **programs: str) -> dict[str, str]:
    """An environment whose PATH holds nothing but basic tools and the given fakes."""
    for name in BASICS.split():
        if (found := shutil.which(name)) and name not in programs:
            (folder / name).symlink_to(found)
    for name, script in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n")
        path.chmod(0o755)
    return {"PATH": str(folder), "HOME": str(folder)}


def refusal(env: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [shutil.which("bash") or "bash", BUILD, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr


def test_no_image_named_is_refused() -> None:
    assert "which image? ci, graph, llm, vllm or all" in refusal(dict(os.environ))


def test_an_unknown_image_is_refused() -> None:
    assert "'cy' is neither an option nor an image" in refusal(dict(os.environ), "cy")


def test_without_apptainer_the_cure_is_named(tmp_path: Path) -> None:
    if shutil.which("apptainer", path="/usr/sbin:/sbin"):
        pytest.skip("apptainer lies where it cannot be hidden")
    message = refusal(bare(tmp_path), "ci")
    assert "apptainer is not installed" in message
    assert "tools/install_system.sh apptainer" in message


def test_without_the_right_to_user_namespaces_the_cure_is_named(tmp_path: Path) -> None:
    env = bare(tmp_path, apptainer="true", id='[ "$1" = -un ] && echo ada || echo 1000', unshare="exit 1")
    message = refusal(env, "ci")
    assert "ada is not root and may not make user namespaces" in message
    assert "build on another machine" in message


def test_without_a_range_of_user_ids_the_cure_is_named(tmp_path: Path) -> None:
    env = bare(
        tmp_path,
        apptainer="true",
        debootstrap="true",
        id='[ "$1" = -un ] && echo ada-99 || echo 199999',
        unshare="true",
    )
    message = refusal(env, "graph")
    assert "debootstrap needs root, or a range of user ids for ada-99" in message
    assert "--docker-base" in message


def test_without_a_known_archive_the_option_is_named(tmp_path: Path) -> None:
    env = bare(tmp_path, apptainer="true", debootstrap="true", apt_get="exit 1", id="echo 0")
    assert "--mirror URL" in refusal(env, "ci")


def test_a_missing_lock_file_is_refused(tmp_path: Path) -> None:
    assert "no such lock file" in refusal(dict(os.environ), "--lock", str(tmp_path / "none.lock"), "ci")


def test_help_is_the_header() -> None:
    done = subprocess.run([BUILD, "--help"], capture_output=True, text=True, timeout=300)
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
    env = bare(tools, **{name: text.format(folder=folder, broken=broken) for name, text in fakes.items()})
    for name in ("basename", "cp", "diff", "mv", "seq", "sha256sum", "sleep", "touch"):
        (tools / name).symlink_to(shutil.which(name) or name)
    return {**env, "PYTHON": str(tools / "python")}


def run_build(folder: Path, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        shutil.which("bash") or "bash",
        BUILD,
        "--out",
        folder / "out",
        "--mirror",
        "mirror",
        *arguments,
    ]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_a_build_gets_wheel_version_revision_and_the_hosts_settings(tmp_path: Path) -> None:
    done = run_build(tmp_path, stand_in(tmp_path), "--mpi", "5.0.7", "graph", "llm")
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


def test_a_lock_that_is_not_met_fails_and_shows_the_difference(tmp_path: Path) -> None:
    lock = tmp_path / "old.lock"
    lock.write_text("deb a=1\npip b==1\n")
    done = run_build(tmp_path, stand_in(tmp_path), "--lock", str(lock), "ci")
    assert done.returncode == 2
    assert "< pip b==1" in done.stderr
    assert "> pip b==2" in done.stderr
    assert not (tmp_path / "out" / f"ci_{kgqa_hpc.__version__}.sif").exists()


def test_a_lock_that_is_met_passes(tmp_path: Path) -> None:
    lock = tmp_path / "old.lock"
    lock.write_text("deb a=1\npip b==2\n")
    assert run_build(tmp_path, stand_in(tmp_path), "--lock", str(lock), "ci").returncode == 0


def test_a_failed_build_shows_its_last_lines_and_leaves_no_image(tmp_path: Path) -> None:
    done = run_build(tmp_path, stand_in(tmp_path, broken="yes"), "ci")
    assert done.returncode == 2
    assert "E: no such package\nerror: ci.def could not be built" in done.stderr
    assert [path.suffix for path in (tmp_path / "out").iterdir()] == [".log"]


def test_a_sandbox_is_a_folder_without_checksum(tmp_path: Path) -> None:
    done = run_build(tmp_path, stand_in(tmp_path), "--sandbox", "ci")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_dir()
    assert not list((tmp_path / "out").glob("*.sha256"))
