"""The tutorials are true: every bash block runs, in order, in one folder (2-cluster.md: tests/cluster)."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [page for page in sorted((ROOT / "docs" / "tutorial").glob("*.md")) if page.stem != "2-cluster"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_tutorial_runs(page: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert blocks
    script = f"kgqa() {{ '{sys.executable}' -m kgqa_hpc -q \"$@\"; }}\nset -euo pipefail\n" + "\n".join(
        blocks
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    if page.stem == "1-own-graph":
        lines = (tmp_path / "runs/facts/dataset/accepted.jsonl").read_text("utf-8").splitlines()
        pairs = {record["question"]: record["answer"] for record in map(json.loads, lines)}
        assert pairs["Which city is the capital of Hungary?"] == "Budapest"
        assert "You write quiz questions" not in done.stderr
        card = (tmp_path / "upload/README.md").read_text("utf-8")
        assert "pretty_name: Rivers and capitals" in card


def test_every_cell_of_the_notebook_runs_and_shows_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "tutorial" / "notebook.ipynb").read_text("utf-8"))
    names: dict[str, object] = {"__name__": "notebook"}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"], "outputs are not kept: they would grow old"
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, cell["id"], "exec"), names)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), cell["id"], "eval"), names))
    assert shown[0] == 45
    assert all("<" in value._repr_html_() for value in shown[1:])
