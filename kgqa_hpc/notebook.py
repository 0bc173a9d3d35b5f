"""A run in a notebook: `kgqa_hpc.open("runs/mine")`, its records as an iterator and as DataFrames.

    run = kgqa_hpc.open("runs/demo")
    run.status()["items"]                      # {"total": …, "ended": …}
    for record in run.records(): …             # accepted ones, streamed
    run.frame("rejected").groupby("group").size()

Nothing here changes a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kgqa_hpc.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Which = Literal["accepted", "rejected", "lost"]


class OpenRun:
    """A run folder to look at. Raises InputError when `folder` is none."""

    def __init__(self, folder: str | Path) -> None:
        from kgqa_hpc.runs import open_run

        self._run, self.config = open_run(Path(folder))
        self.path = self._run.path

    def __repr__(self) -> str:
        return f"kgqa_hpc.open({str(self.path)!r})"

    def status(self) -> dict[str, Any]:
        """What `kgqa status --json` prints."""
        from kgqa_hpc.stages import standing

        return standing(self.path)

    def accounting(self) -> dict[str, Any]:
        """dataset/accounting.json. Raises InputError before the first merge."""
        from kgqa_hpc.store import canonical

        accounting: dict[str, Any] = canonical.loads(self._file("accounting.json").read_bytes())
        return accounting

    def records(self, which: Which = "accepted") -> Iterator[dict[str, Any]]:
        """The dataset's records one by one, as in its JSON lines. Raises InputError before the first merge."""
        from kgqa_hpc.store import canonical

        with self._file(f"{which}.jsonl").open("rb") as file:
            for line in file:
                yield canonical.loads(line)

    def frame(self, which: Which = "accepted") -> pd.DataFrame:
        """The same as a DataFrame, one row a record. Raises InputError before the first merge."""
        import pandas as pd

        return pd.DataFrame(self.records(which))

    def explain(self, item: str) -> dict[str, Any]:
        """One item's whole story: what `kgqa explain --json` prints."""
        from kgqa_hpc.dataset.explain import explain

        return explain(self.path, item)

    def _file(self, name: str) -> Path:
        path = self._run.dataset / name
        if not path.is_file():
            raise InputError(f"{path}: no such file", f"first: kgqa merge {self.path}")
        return path
