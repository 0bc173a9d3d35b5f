"""Record what whole runs give: `python -m tests.golden.record [CASE...]` writes tests/golden/data/CASE.json.gz.

Record anew only when a difference is intended, and say in the commit why. The names of cases are in cases.py.
"""

import gzip
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES
from tests.golden.observe import observe

DATA = Path(__file__).parent / "data"


def read(name: str) -> dict[str, Any]:
    """The recording of a case."""
    return dict(json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes())))


def write(name: str, seen: dict[str, Any]) -> None:
    DATA.mkdir(exist_ok=True)
    text = json.dumps(seen, ensure_ascii=False, sort_keys=True)
    (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def main(names: list[str]) -> None:
    if unknown := set(names) - set(CASES):
        sys.exit(f"error: no such case: {', '.join(sorted(unknown))}\n       cases: {', '.join(CASES)}")
    for name in names or CASES:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as scratch:
            seen = observe(name, Path(scratch))
        write(name, seen)
        counts = {status: len(records) for status, records in seen["records"].items()}
        print(f"{name:<10} {time.monotonic() - began:5.1f} s {counts}")


if __name__ == "__main__":
    main(sys.argv[1:])
