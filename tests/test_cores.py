"""Cores are counted once, and a cgroup's quota counts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgqa_hpc import threads


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)
    monkeypatch.setattr(threads, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(threads, "_QUOTA_V1", (tmp_path / "quota", tmp_path / "period"))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 64), ("200000 100000", 2), ("50000 100000", 1), ("nonsense", 64)]
)
def test_a_quota_of_the_cgroup_bounds_the_cores(many: Path, text: str, expected: int) -> None:
    (many / "cpu.max").write_text(text)
    assert threads.usable_cores() == expected


def test_the_older_form_of_the_quota_is_read_and_no_quota_is_none(many: Path) -> None:
    assert threads.usable_cores() == 64
    (many / "quota").write_text("-1\n")
    (many / "period").write_text("100000\n")
    assert threads.usable_cores() == 64
    (many / "quota").write_text("400000\n")
    assert threads.usable_cores() == 4
