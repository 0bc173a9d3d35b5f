"""Similar sequences are one cluster, no cluster is divided, and the threshold is stated."""

import itertools
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgqa_hpc.config.sections import Split
from kgqa_hpc.dataset.splits import divide
from kgqa_hpc.errors import InputError, KgqaError
from kgqa_hpc.plugins.literature.protein_sets import cluster, cluster_by_kmers, cluster_by_mmseqs

AMINO = "ACDEFGHIKLMNPQRSTVWY"


def parts_of(rows: Any) -> list[int]:
    """The number of each row's part."""
    query = "SELECT dense_rank() OVER (ORDER BY part) FROM candidate ORDER BY row"
    return [part for (part,) in rows.database.execute(query).fetchall()]


def families(number: int, members: int, rng: random.Random, changed: float = 0.05) -> list[str]:
    """`number` unrelated sequences, each with mutated copies, family after family."""
    parents = ["".join(rng.choices(AMINO, k=200)) for _ in range(number)]
    copied = (parent for parent in parents for _ in range(members))
    return ["".join(rng.choice(AMINO) if rng.random() < changed else a for a in p) for p in copied]


def across(sequences: list[str], labels: Any, k: int = 5) -> float:
    """The highest Jaccard similarity of two sequences with different labels."""
    sets = [{s[i : i + k] for i in range(max(1, len(s) - k + 1))} for s in sequences]
    pairs = itertools.combinations(zip(sets, labels, strict=True), 2)
    return max((len(a & b) / len(a | b) for (a, label), (b, other) in pairs if label != other), default=0)


def test_no_pair_across_clusters_reaches_the_threshold() -> None:
    sequences = families(6, 6, random.Random(2), changed=0.25)
    for threshold in (0.05, 0.1, 0.3):
        assert across(sequences, cluster_by_kmers(sequences, threshold=threshold).labels) < threshold


def test_short_equal_and_empty_sequences_are_no_trouble() -> None:
    assert cluster_by_kmers(["MK", "mk", "", "MKV"]).labels.tolist() == [0, 0, 1, 2]
    assert cluster_by_kmers([]).labels.tolist() == []


def test_a_dataset_split_by_clusters_has_no_similar_sequences_in_two_parts(
    tmp_path: Path, rows_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without MMseqs2
    rng = random.Random(3)
    sequences = [s for _ in range(60) for s in families(1, rng.randint(1, 6), rng)]
    rng.shuffle(sequences)
    rows = rows_of(tmp_path, [{"sequence": sequence} for sequence in sequences])
    shares = {"train": 0.8, "validation": 0.1, "test": 0.1}
    report = divide(rows, Split(by="sequence_cluster", shares=shares), 4)
    assert across(sequences, parts_of(rows)) < 0.1
    assert report["method"] == "single linkage of Jaccard >= 0.1 on 5-mers"
    assert (report["groups"], report["shared_values"]) == (60, 0)
    for name, share in shares.items():
        assert report["parts"][name]["share"] == pytest.approx(share, abs=0.03)


def test_records_without_sequences_cannot_be_split_by_them(tmp_path: Path, rows_of: Any) -> None:
    with pytest.raises(InputError, match="has no column 'sequence'"):
        divide(rows_of(tmp_path, [{"taxon": "a"}]), Split(by="sequence_cluster"), 1)


def test_mmseqs_gets_only_sequences_that_it_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "mmseqs"
    fake.write_text("#!/bin/sh\ncp in.fasta $KGQA_SEEN\n: > out_cluster.tsv\n", encoding="ascii")
    fake.chmod(0o755)
    seen = tmp_path / "seen"
    monkeypatch.setenv("KGQA_SEEN", str(seen))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert cluster([]).labels.tolist() == []
    assert cluster(["", "MK"]).labels.tolist() == [0, 1]
    assert not seen.exists()  # MMseqs2 fails without a sequence of 14 residues
    assert cluster(["", ">é\n" + "M" * 14]).labels.tolist() == [0, 1]
    assert seen.read_text(encoding="ascii") == f">1\nXXX{'M' * 14}\n"


@pytest.mark.slow  # MMseqs2 has a dozen stages
def test_mmseqs_finds_the_planted_families_too() -> None:
    if not shutil.which("mmseqs"):
        pytest.skip("SKIPPED: NO MMSEQS ON THE PATH, ITS CLUSTERS ARE NOT TESTED")
    found = cluster_by_mmseqs(families(8, 4, random.Random(6)))
    assert np.unique(found.labels, return_counts=True)[1].tolist() == [4] * 8
    assert found.method == "MMseqs2 easy-cluster, identity >= 0.3, coverage >= 0.8"


def test_mmseqs_is_used_when_it_is_there_and_its_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    equal = ["M" * 14, "M" * 14]
    assert cluster(equal).method.startswith("single linkage")
    fake = tmp_path / "mmseqs"
    fake.write_text("#!/bin/sh\necho 'no space left' >&2\nexit 1\n", encoding="ascii")
    fake.chmod(0o755)
    with pytest.raises(KgqaError, match="no space left"):
        cluster(equal)
    fake.write_text("#!/bin/sh\nprintf '0\\t0\\n0\\t1\\n' > out_cluster.tsv\n", encoding="ascii")
    assert cluster(equal).labels.tolist() == [0, 0]
