"""What is published is what merge wrote, whole, with a list of what is missing."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kgqa_hpc.cli import app
from kgqa_hpc.dataset.publish import publish
from kgqa_hpc.errors import CorruptFile, InputError
from kgqa_hpc.store.canonical import sha256_of


@pytest.fixture
def run(make_merged: Any) -> Any:
    return make_merged()[0]


def test_the_folder_checks_itself_and_holds_dataset_and_exports(run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = publish(run.folder, out, ["messages", "lm-eval"])
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    files = {"README.md", "croissant.json", "accepted.jsonl", "exports/messages/train.jsonl"}
    assert files <= set(done.files)
    assert (out / "accepted.jsonl").read_bytes() == (run.folder.dataset / "accepted.jsonl").read_bytes()
    assert "upload --repo-type dataset" in str(done)


def test_what_is_missing_is_said_with_its_key(make_run: Any, make_merged: Any, tmp_path: Path) -> None:
    told = {"licence": "CC0-1.0", "citation": "Doe", "contact": "doe@x.org", "split": {"by": "id"}}
    run, _ = make_merged(dataset=told)
    assert publish(run.folder, tmp_path / "out").missing == [f"the report: kgqa report {run.folder.path}"]
    plain = make_run(name="plain")
    plain.merge("shard-000000", partial=True)
    missing = " ".join(publish(plain.folder, tmp_path / "half").missing)
    for key in ("dataset.licence", "dataset.citation", "dataset.contact", "dataset.split", "7 of 8 shards"):
        assert key in missing


def test_nothing_that_was_put_beside_the_dataset_is_published(run: Any, tmp_path: Path) -> None:
    """Whoever may write into the run could else publish any file of the one who publishes."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (run.folder.dataset / "notes.txt").symlink_to(secret)
    out = tmp_path / "out"
    publish(run.folder, out)
    assert not (out / "notes.txt").exists()
    with (run.folder.dataset / "SHA256SUMS").open("a") as sums:
        sums.write(f"{sha256_of(secret)}  notes.txt\n")
    with pytest.raises(CorruptFile, match=r"notes.txt: is damaged"):
        publish(run.folder, out)


def test_only_a_folder_of_an_earlier_publication_is_replaced(run: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InputError, match="no export wrote"):
        publish(run.folder, tmp_path)
    publish(run.folder, tmp_path / "out")
    done = CliRunner().invoke(app, ["publish", str(run.folder.path), str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["missing"]
