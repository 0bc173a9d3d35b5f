"""`kgqa sql` answers questions about a dataset, and can neither read another file nor change anything."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Done, kgqa
from tests.dataset.conftest import records_of
from tests.project import write_project
from tests.record_runs import config_of, written


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    kgqa("all", write_project(folder), folder / "run")
    return folder / "run"


def ask(run: Path, query: str, code: int | None = 0) -> Done:
    return kgqa("sql", run, query, "--json", code=code)


def test_the_views_hold_the_records_of_the_files_and_a_row_per_node(run: Path) -> None:
    for name in ("accepted", "rejected", "lost"):
        (row,) = json.loads(ask(run, f"SELECT count(*) AS n FROM {name}").stdout)
        assert row == {"n": len(records_of(run / "dataset", name))}
    uses = sum(len(record["nodes"]) for record in records_of(run / "dataset"))
    assert json.loads(ask(run, "SELECT count(*) AS n, any_value(name) <> '' AS named FROM nodes").stdout) == [
        {"n": uses, "named": True}
    ]


def test_people_read_a_table(run: Path) -> None:
    done = kgqa("sql", run, 'SELECT "group", count(*) AS pairs FROM accepted GROUP BY ALL ORDER BY ALL')
    assert done.stdout.split()[:2] == ["group", "pairs"]
    assert kgqa("sql", run, "SELECT id FROM accepted WHERE false").stdout == "no rows\n"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('{run}/config.yaml')",
        "SELECT * FROM '{run}/dataset/accepted.jsonl'",
        "COPY accepted TO '{run}/copy.csv'",
        "CREATE TABLE mine AS SELECT 1",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "ATTACH '{run}/other.db'",
        "SELECT 1; SELECT 2",
        "SELECT * FROM sys",
        "SELECT nothing FROM accepted",
        "SELECT a.id, r.id FROM accepted AS a CROSS JOIN rejected AS r",
        "SELEC",
        "",
    ],
)
def test_other_files_settings_and_mistakes_are_one_line_and_exit_code_2(run: Path, query: str) -> None:
    before = sorted(run.rglob("*"))
    done = ask(run, query.format(run=run), code=2)
    assert len(done.stderr.splitlines()) == 2, "the mistake, and the cure"
    assert done.stdout == ""
    assert sorted(run.rglob("*")) == before


def test_a_wrong_condition_is_told_before_anything_is_written(run: Path, tmp_path: Path) -> None:
    for condition in ("no_such = 1", "1 = 1) UNION (SELECT 1", "id + 1", "count(*) > 1"):
        kgqa("export", run, "--to", "messages", "--out", tmp_path / "out", "--where", condition, code=2)
        assert not (tmp_path / "out").exists(), condition


def test_a_misspelt_field_is_told_with_the_nearest(run: Path) -> None:
    assert 'Candidate Entries: "judge"' in ask(run, "SELECT verdicts.juge AS j FROM accepted", code=2).stderr


def test_the_next_run_takes_the_records_of_an_expression(run: Path, tmp_path: Path) -> None:
    chosen = sorted(str(record["id"]) for record in records_of(run / "dataset"))[:3]
    ids = ", ".join(f"'{record}'" for record in chosen)
    anchors = {"kind": "records", "from": str(run), "where": f"accepted AND id IN ({ids})"}
    kgqa("all", written(tmp_path / "next.yaml", config_of("check", anchors=anchors)), tmp_path / "next")
    wrong = config_of("check", anchors={**anchors, "where": "colour"})
    kgqa("all", written(tmp_path / "wrong.yaml", wrong), tmp_path / "wrong", code=2)
    found = records_of(tmp_path / "next" / "dataset", "accepted", "rejected")
    assert sorted(str(record["source_id"]) for record in found) == chosen


def test_every_type_of_value_is_json(run: Path) -> None:
    query = """SELECT 1.5 AS price, DATE '2026-01-02' AS day, 'nan'::DOUBLE AS nothing, [1.5, 2] AS prices,
      {'day': DATE '2026-01-02'} AS part, 170141183460469231731687303715884105727 AS large, 'a'::BLOB AS bytes"""
    (row,) = json.loads(ask(run, query).stdout)
    assert row["price"] == 1.5
    assert (row["day"], row["part"]) == ("2026-01-02", {"day": "2026-01-02"})
    assert row["nothing"] is None
    assert row["prices"] == [1.5, 2.0]
    assert row["large"] == 2**127 - 1


def test_a_query_larger_than_the_memory_writes_no_file_into_the_current_folder(run: Path) -> None:
    """By the setting: DuckDB's own is `.tmp`, and what it wrote is gone when it ends."""
    (row,) = json.loads(ask(run, "SELECT current_setting('temp_directory') AS folder").stdout)
    assert row == {"folder": ""}


PROGRAM = """
import duckdb
from kgqa_hpc.database import connect
for database in (duckdb.connect(), connect("100MB")):
    print(database.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0])
"""


def test_a_long_query_of_a_session_writes_no_progress_to_standard_output() -> None:
    """By the setting: DuckDB turns its bar on where no script runs, and shows it after two seconds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
