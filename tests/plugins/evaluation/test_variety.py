"""The diversity of a dataset can be told, and set against that of another over equally many texts."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.diversity import variety

WORDS = [f"{root}{end}" for root in ("gen", "cardi", "nephr", "neur", "derm") for end in "abcdefghijklmnop"]


def written(path: Path, texts: list[str]) -> Path:
    lines = [
        json.dumps({"id": str(i), "question": text, "accepted": i % 5 > 0}) for i, text in enumerate(texts)
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Questions of one template, and of random words; of every five the first was rejected."""
    draw = random.Random(2)
    same = [f"Which gene causes {draw.choice(WORDS[:10])}?" for _ in range(100)]
    varied = [" ".join(draw.sample(WORDS, 8)) + "?" for _ in range(200)]
    return written(tmp_path / "same.jsonl", same), written(tmp_path / "varied.jsonl", varied)


def test_a_template_is_less_varied_by_every_measure_over_equally_many_texts(files: tuple[Path, Path]) -> None:
    found = variety(*files, topics=5)
    same, varied = found["measures"].values()
    assert list(found["texts"].values()) == [80, 160]
    assert same["texts"] == varied["texts"] == 80
    assert all(same["distinct"][n] < varied["distinct"][n] for n in ("2", "3", "4"))
    assert same["self_bleu"] > varied["self_bleu"]
    assert same["vendi"] < varied["vendi"]
    assert sum(topic["texts"] for topic in same["topics"]) == 80
    assert variety(*files, topics=5) == found


def test_the_command_shows_both_beside_each_other(files: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(app, ["diversity", str(files[0]), "--against", str(files[1]), "--topics", "3"])
    assert done.exit_code == 0, done.output
    assert "self-BLEU" in done.stdout
    assert f"topics of {files[1]}" in done.stdout


@pytest.mark.slow  # umap-learn compiles itself
def test_curves_and_topics_are_drawn(files: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="NO MAP OF TOPICS: umap-learn is not installed")
    drawn = variety(*files, topics=3, figures=tmp_path / "figures")["figures"]
    assert [Path(file).name for file in drawn] == ["type_token.svg", "topics.svg"]
    curves, topics = (Path(file).read_text() for file in drawn)
    assert all(file.name in curves for file in files)
    assert "80 texts, 3 topics" in topics


def test_without_umap_the_curves_are_drawn_alone(
    files: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    drawn = variety(files[1], topics=3, figures=tmp_path / "figures")["figures"]
    assert [Path(file).name for file in drawn] == ["type_token.svg"]
    assert "kgqa_hpc[umap]" in capsys.readouterr().err


def test_a_field_that_no_record_has_is_named(files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="no accepted record has a text 'answer'"):
        variety(files[0], field="answer")
