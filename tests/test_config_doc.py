"""docs/reference/config.md says what the settings are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgqa_hpc.config import RunConfig, RuntimeConfig
from kgqa_hpc.kg.sources import SOURCES
from tests.by_path import load

pytestmark = pytest.mark.plugin("biokg", "evaluation", "gasl", "literature", "reasoning")
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_tool_writes() -> None:
    assert load(ROOT / "tools" / "config_doc.py").page() == PAGE, (
        "write it anew: python tools/config_doc.py > docs/reference/config.md"
    )


def test_every_section_and_source_is_on_the_page() -> None:
    for name in (*RunConfig.model_fields, *RuntimeConfig.model_fields):
        assert f"| `{name}`" in PAGE
    for source in SOURCES.names():
        assert f"source: {source}" in PAGE or SOURCES.origin(source) != "kgqa_hpc"
    for key in (
        "exclude_edge_types",
        "unknown_nodes",
        "duplicate_nodes",
        "unnamed_nodes",
        "window",
        "licence",
    ):
        assert f"| `{key}`" in PAGE
