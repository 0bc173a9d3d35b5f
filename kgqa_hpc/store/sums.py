"""SHA256SUMS of a dataset: written with it, and compared before a command reads its files."""

from pathlib import Path

from kgqa_hpc.errors import CorruptFile
from kgqa_hpc.store.atomic import disk_errors
from kgqa_hpc.store.canonical import sha256_of
from kgqa_hpc.text.plain_text import shell_word
from kgqa_hpc.text.streams import read_bytes

SUMS = "SHA256SUMS"
COMBINED = "combined.json"
_TRIES = 3  # attempts; another merge may exchange the folder between two reads


def require_whole(dataset: Path, *names: str) -> None:
    """Raise CorruptFile for a file of the dataset whose checksum differs from SHA256SUMS.

    Folders without SHA256SUMS (made by hand) and files that it does not name are not checked.
    """
    for attempt in range(_TRIES):
        sums = read_sums(dataset)
        paths = {name: dataset / name for name in names if name in sums}
        digests = {name: sha256_of(path) if path.is_file() else None for name, path in paths.items()}
        wrong = [name for name, digest in digests.items() if digest != sums[name]]
        if not wrong:
            return
        if attempt and read_sums(dataset) == sums:
            break
    raise damaged(dataset / wrong[0])


def read_sums(dataset: Path) -> dict[str, str]:
    """sha256 by file name; empty where there is no SHA256SUMS. Raises CorruptFile when it cannot be read."""
    path = dataset / SUMS
    if not path.exists():
        return {}
    try:
        with disk_errors(path):
            lines = read_bytes(path).decode("utf-8").splitlines()
        return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    except ValueError:
        raise damaged(path) from None


def write_sums(folder: Path, digests: dict[str, str]) -> None:
    """Write SHA256SUMS of all files of a folder, as `sha256sum --check` reads it; files in `digests` are not read
    again.
    """
    files = sorted(
        (path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()
    )
    lines = [f"{digests.get(name) or sha256_of(path)}  {name}\n" for name, path in files]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def damaged(path: Path) -> CorruptFile:
    """The error for a dataset file that changed after merge or combine wrote it."""
    if (path.parent / COMBINED).exists():
        return CorruptFile(f"{path}: is damaged", "combine again: kgqa combine OUT RUN RUN")
    return CorruptFile(f"{path}: is damaged", f"merge again: kgqa merge {shell_word(path.parent.parent)}")
