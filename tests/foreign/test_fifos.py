"""A FIFO or a device in place of a file that a user names: each verb refuses it in a line, and none waits for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import kgqa

# Words of a command; FILE is the FIFO or the device. A suffix of FILE is that of the file.
VERBS = {
    "init": "init FILE.yaml RUN",
    "the graph": "init CONFIG RUN; import RUN",
    "a prompt": "init CONFIG RUN2; judge RUN2 --prompt FILE.md",
    "an engine": "init CONFIG RUN2; judge RUN2 --prompt demo_filter --engine FILE.yaml",
    "human page": "human page FILE.csv page.html",
    "human analyse": "human analyse FILE.csv",
    "calibrate": "calibrate FILE.csv --judge FILE.jsonl",
    "panel": "panel FILE.jsonl",
    "score": "score FILE.jsonl FILE.jsonl",
    "diversity": "diversity FILE.jsonl",
    "grounding": "grounding FILE.jsonl",
    "index build": "index build INDEX FILE.jsonl",
    "mentions": "mentions FILE.jsonl --names FILE.csv",
    "gasl check": "gasl check FILE.gasl",
    "gasl run": "gasl run FILE.gasl --nodes FILE.csv --edges FILE.csv",
    "plan": "init CONFIG RUN2; plan RUN2 --pilot FILE.json",
}
GRAPH = "graph: {source: csv, nodes: FILE.csv, edges: FILE.csv}\nengine: {kind: scripted}\n"


@pytest.mark.timeout(120)
@pytest.mark.plugin("gasl")
@pytest.mark.plugin("evaluation")
@pytest.mark.plugin("literature")
@pytest.mark.parametrize("kind", ["fifo", "device"])
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_refuses_what_is_no_regular_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("yaml", "md", "csv", "jsonl", "gasl", "json"):
        path = tmp_path / f"FILE.{suffix}"
        os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    (tmp_path / "CONFIG").write_text(GRAPH)
    *before, last = VERBS[name].split("; ")
    for line in before:
        kgqa(*line.split())
    done = kgqa(*last.split(), code=None)
    assert done.returncode in (1, 2), done.stdout
    refusals = ("regular file", "no such", "not a ", "is missing")
    assert "error: " in done.stderr
    assert any(words in done.stderr for words in refusals), done.stderr
    assert len(done.stderr) < 1500
