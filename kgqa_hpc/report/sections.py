"""Sections that others add to the report: functions (dataset) -> HTML, found in the registry `sections`."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from kgqa_hpc.dataset.exports.source import open_source
from kgqa_hpc.errors import ExtensionError
from kgqa_hpc.registry import SECTIONS
from kgqa_hpc.store.run_folder import RunFolder


class Section(NamedTuple):
    """One section of the page."""

    name: str
    title: str
    html: Markup


def added_sections(run: RunFolder) -> list[Section]:
    """All that have something to say of the merged dataset. Raises ExtensionError with the entry for one that fails."""
    added = []
    for name in SECTIONS.names():
        function = SECTIONS.get(name)
        with SECTIONS.calling(name):
            html = function(open_source(run))
        if not isinstance(html, str):
            raise ExtensionError(f"{SECTIONS.entry(name)} returned {html!r:.80}", "return HTML as a text")
        title = (function.__doc__ or name).strip().split("\n")[0].removesuffix(".")
        if html:
            added.append(Section(name, title, Markup(html)))
    return added
