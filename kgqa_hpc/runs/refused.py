"""Note of a configuration that an existing run refused: RUN/refused.json.

The user wanted other settings than the run has. A later `kgqa merge` would still use the recorded ones, so it ends
with exit 2 until the user gives the new settings or asks for the recorded ones. docs/reference/format.md, section 4.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kgqa_hpc.errors import InputError, StoreError
from kgqa_hpc.store import atomic
from kgqa_hpc.store.document import read_document, write_document
from kgqa_hpc.store.run_folder import RunFolder

KIND = "refused"


@contextmanager
def noting_refusal(folder: Path, source: str) -> Iterator[None]:
    """Note in an existing run that the configuration `source` was refused within the block."""
    run = RunFolder(folder)
    try:
        yield
    except InputError as problem:
        if atomic.exists(run.manifest_file):
            head = {"format": f"kgqa-{KIND}", "version": 1}
            content = {**head, "config": source, "problem": problem.message}
            with suppress(StoreError):  # of a run that this user cannot write, and so cannot merge
                write_document(run.refused, content)
        raise


def accept_recorded(run: RunFolder) -> None:
    """Delete the note of a refused configuration: the recorded settings are those that the user wants."""
    with atomic.disk_errors(run.refused):
        run.refused.unlink(missing_ok=True)


def require_no_refusal(run: RunFolder) -> None:
    """Raises InputError if the last configuration given for this run was refused. Raises CorruptFile."""
    if not atomic.exists(run.refused):
        return
    note = read_document(run.refused, KIND)
    config, merge = note["config"], f"kgqa merge {run.path}"
    file = f"its dataset: section alone: {merge} --config {config}; " if Path(config).is_file() else ""
    raise InputError(
        f"{run.path}: nothing merged, because this run refused {config}:\n  "
        + "\n  ".join(note["problem"].splitlines()),
        f"{file}the run's recorded settings: {merge} --as-recorded",
    )
