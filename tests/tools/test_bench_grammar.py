"""The cost of our prompts' schemas in LMDeploy's grammar compiler is measured, and they let every text through."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / os.environ.get("VENV_LMDEPLOY", ".venv-lmdeploy") / "bin" / "python"

pytestmark = [
    pytest.mark.skipif(
        not (PYTHON.parents[1] / "kgqa.stamp").exists(),
        reason="XGRAMMAR IS NOT INSTALLED, ITS COST NOT TESTED: tools/install_lmdeploy_cpu.sh",
    ),
    pytest.mark.slow,
]


def bench(*arguments: str) -> list[dict[str, object]]:
    pytest.importorskip("xllamacpp", reason="NO GGUF FILE: THE COST OF GRAMMARS IS NOT TESTED")
    command = [sys.executable, str(ROOT / "tools" / "bench_grammar.py"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["xgrammar"] == "0.2.1"
    return list(document["rows"])


def test_every_shipped_schema_is_measured_and_lets_every_text_through_in_both_vocabularies() -> None:
    rows = bench()
    for row in rows:
        print(row)
        assert row["accepts"], "quotes, newlines and Greek letters must pass"
        assert float(str(row["compile_cpu_s"])) > 0
        assert float(str(row["mask_ms"])) > 0
    assert {row["vocabulary"] for row in rows} == {49_152, 128_000}
    assert len(rows) >= 6
