"""The diversity of a dataset can be told, and set against that of another over equally many texts."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation.variety import variety

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


def test_a_field_that_no_record_has_is_named(files: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="no accepted record has a text 'answer'"):
        variety(files[0], field="answer")
