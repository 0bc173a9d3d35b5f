"""The core works without any of the plugins: deleting a plugin's folder removes its entries and nothing else."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgqa_hpc.registry import shipped_plugins

ROOT = Path(__file__).parents[1]
COPIED = ("kgqa_hpc", "prompts", "configs", "tests", "tools", "docs", "pyproject.toml", "README.md")
# Tests whose answers depend on the plugins that are there, and those of the core at its outer doors.
LISTING = ("tests/golden", "tests/test_config.py", "tests/test_structure.py")
WIDEST = "tests/golden/test_golden.py::test_a_run_gives_what_it_gave[graphlet]"  # long: run without any plugin only
CORE = (*LISTING, "tests/anchors", "tests/status/test_log_files.py")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with its compiled modules and kernels, which all tests share."""
    folder = tmp_path_factory.mktemp("walls") / "project"
    folder.mkdir()
    ignore = shutil.ignore_patterns(".pytest_cache", "kgqa-kernels-*", "*.pyc.*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    copy_kernels(folder)
    return folder


def copy_kernels(folder: Path) -> None:
    """Copy the machine code of kernels; numba names its folders after that of the source."""
    new_names = {}
    for source in (ROOT / "kgqa_hpc").rglob("*"):
        if source.is_dir():
            old, new = (
                f"{source.name}_{hashlib.sha1(str(path).encode()).hexdigest()}"
                for path in (source, folder / source.relative_to(ROOT))
            )
            new_names[old] = new
    for code in (ROOT / "kgqa_hpc" / "__pycache__").glob("kgqa-kernels-*/*/*.nb[ic]"):
        target = folder / code.relative_to(ROOT).parents[1] / new_names[code.parent.name] / code.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(code, target)


@pytest.fixture
def without(project: Path, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Moves a plugin and its tests out of the project until the test ends."""
    moved: dict[Path, Path] = {}

    def move(plugin: str) -> None:
        for room in ("kgqa_hpc", "tests"):
            folder = project / room / "plugins" / plugin
            moved[folder] = folder.rename(tmp_path / f"{room}-{plugin}")

    yield move
    for folder, aside in moved.items():
        aside.rename(folder)


def assert_passed(project: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


@pytest.mark.slow
def test_the_core_and_its_whole_runs_need_no_plugin(project: Path, without: Callable[[str], None]) -> None:
    for plugin in shipped_plugins():
        without(plugin)
    assert_passed(project, "-m", "not slow", *CORE)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", sorted(shipped_plugins()))
def test_without_a_plugin_all_others_are_there(
    plugin: str, project: Path, without: Callable[[str], None]
) -> None:
    without(plugin)
    assert_passed(project, "-m", "not slow", "--deselect", WIDEST, *LISTING)


def test_each_plugin_has_a_table_of_entries_of_known_registries() -> None:
    groups = {"anchors", "steps", "engines", "sources", "exports", "commands"}
    groups |= {"clusterings", "hydrators", "metapaths"}
    for plugin in shipped_plugins().values():
        assert plugin.SECTION
        assert plugin.ENTRIES.keys() <= groups
        assert all(plugin.ENTRIES.values())
