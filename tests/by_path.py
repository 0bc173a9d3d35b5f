"""Code that lies in no installed package: programs of the repository as modules, packages of a page of the docs."""

import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType


def load(path: Path) -> ModuleType:
    """The program at `path`, imported anew."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def install(folder: Path, project_file: str) -> None:
    """Put metadata and entry points into a folder, as pip does for a pyproject.toml with this text."""
    project = tomllib.loads(project_file)["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    points = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(points))
