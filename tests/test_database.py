"""Databases in memory write nothing but answers."""

from __future__ import annotations

import pytest

from kgqa_hpc.database import connect


def test_a_long_query_writes_no_progress_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with connect("300MB") as database:
        database.execute("SET progress_bar_time = 1")
        count = "SELECT count(*) FROM range(40000000) a WHERE hash(a.range) % 3 = 0"
        assert database.execute(count).fetchall()[0][0] > 13_000_000
    assert capfd.readouterr().out == ""
