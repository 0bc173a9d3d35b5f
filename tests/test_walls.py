"""The core works without any of the plugins: deleting a plugin's folder removes its entries and nothing else."""

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
# Tests of the core at its outer doors, and the whole runs.
CORE = ("tests/golden", "tests/anchors", "tests/status/test_log_files.py")
CORE_FILES = ("config", "structure")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project. All tests share it, because compiled kernels are good for their folder alone."""
    folder = tmp_path_factory.mktemp("walls") / "project"
    folder.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache", "*.nbc", "*.nbi")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignore)
        else:
            shutil.copy(source, folder / name)
    return folder


@pytest.fixture
def without(project: Path, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Moves a plugin and its tests out of the project until the test ends."""
    moved: dict[Path, Path] = {}

    def move(plugin: str) -> None:
        for number, room in enumerate(("kgqa_hpc", "tests")):
            folder = project / room / "plugins" / plugin
            moved[folder] = folder.rename(tmp_path / str(number))

    yield move
    for folder, aside in moved.items():
        aside.rename(folder)


@pytest.mark.slow
@pytest.mark.parametrize("plugin", sorted(shipped_plugins()))
def test_the_core_and_its_whole_runs_need_no_plugin(
    plugin: str, project: Path, without: Callable[[str], None]
) -> None:
    without(plugin)
    files = [f"tests/test_{name}.py" for name in CORE_FILES]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run(
        [*command, *CORE, *files],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout


def test_each_plugin_has_a_table_of_entries_of_known_registries() -> None:
    groups = {"anchors", "steps", "engines", "sources", "exports", "commands", "hydrators", "clusterings"}
    for plugin in shipped_plugins().values():
        assert plugin.SECTION
        assert plugin.ENTRIES.keys() <= groups
        assert all(plugin.ENTRIES.values())
