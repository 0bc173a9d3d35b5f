"""A merge that was stopped never puts an older dataset back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgqa_hpc.dataset import merge as merge_room
from kgqa_hpc.store import replace_folder
from tests.golden.command import Ended, kgqa
from tests.project import CONFIG, write_graph

Change = Callable[[Path], None]


def extend(run: Path) -> None:
    assert kgqa("extend", run, "--per-shape", 9).code == 0
    assert kgqa("run", run).code == 0


def judge(run: Path) -> None:
    assert kgqa("judge", run, "--prompt", "demo_filter", "--name", "second").code == 0


def other_settings(run: Path) -> None:
    assert kgqa("merge", run, "--set", "dataset.z_score=1.5").code == 0


CHANGES: dict[str, Change] = {"extend": extend, "judge": judge, "settings": other_settings}


def merged_meanwhile(
    run: Path, change: Change, stopped_at: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> tuple[Ended, bytes]:
    """A merge during which, at this function, another process changes the run and merges it; the newer accounting."""
    room, name = stopped_at
    original = getattr(room, name)
    newer: list[bytes] = []

    def stopped(*arguments: Any) -> Any:
        if not newer:
            monkeypatch.setattr(room, name, original)
            change(run)
            assert kgqa("merge", run).code == 0
            newer.append((run / "dataset/accounting.json").read_bytes())
        return original(*arguments)

    monkeypatch.setattr(room, name, stopped)
    return kgqa("merge", run), newer[0]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("merged_before", [True, False])
@pytest.mark.parametrize("place", [(replace_folder, "_take_place"), (merge_room, "write_documents")], ids=str)
def test_a_merge_that_was_overtaken_leaves_the_newer_dataset(
    place: tuple[Any, str], merged_before: bool, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_graph(tmp_path)
    (tmp_path / "run.yaml").write_text(CONFIG)
    run = tmp_path / "run"
    for verb in ("init", "import", "sample", "run"):
        assert kgqa(verb, *([tmp_path / "run.yaml"] if verb == "init" else []), run).code == 0
    if merged_before:
        assert kgqa("merge", run).code == 0
    done, newer = merged_meanwhile(run, CHANGES[change], place, monkeypatch)
    assert done.code == 1
    assert "merge again" in done.error
    assert (run / "dataset/accounting.json").read_bytes() == newer
    assert kgqa("merge", run).code == 0
    assert json.loads((run / "dataset/accounting.json").read_bytes()) == json.loads(newer)
    assert sorted(path.name for path in run.glob(".dataset*")) == []
