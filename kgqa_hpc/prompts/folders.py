"""Search path of prompt files and modules: the user's folder first, then the folders of the package.

Each file of the user's folder overrides the shipped file of the same name: its `p5.md` replaces the prompt p5, and its
`modules/question.md` replaces that module in every prompt that includes it.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import kgqa_hpc
from kgqa_hpc.errors import ConfigError, PromptError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.store.atomic import NotRegular, read_with_state
from kgqa_hpc.store.yaml_file import parse_yaml

_PACKAGE = Path(kgqa_hpc.__file__).resolve().parent
DOMAIN = "biomedicine"
PUBLISHED = "published"  # folder of prompts with the structure of the paper's prompts
LARGEST = 256 * 1024  # bytes of one file; the longest of ours has 12,000
_RELATIVE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")


def shipped_prompts() -> Path:
    """The folder of shipped prompts: prompts/ of the repository, or its copy in the installed package."""
    repository = _PACKAGE.parent
    if (repository / "pyproject.toml").is_file() and (repository / "prompts").is_dir():
        return repository / "prompts"
    return _PACKAGE / "_shipped" / "prompts"


@dataclass(frozen=True)
class Folders:
    """An ordered list of folders; a file is taken from the first folder that has it."""

    paths: tuple[Path, ...]

    @classmethod
    def with_user(cls, folder: str | Path | None, domain: str = DOMAIN) -> Self:
        """The user's folder and then the shipped one; each is searched for files of the domain first, in
        published/ last.

        Raises PromptError when `folder` does not exist, or no folder has that domain.
        """
        roots = [shipped_prompts()]
        if folder is not None:
            user_folder = Path(folder).expanduser()
            if not user_folder.is_dir():
                raise PromptError(
                    f"prompts.folder {user_folder}: no such folder", "create it, or leave prompts.folder out"
                )
            roots.insert(0, user_folder)
        domains = sorted(
            {path.name for root in roots for path in (root / "domains").glob("*") if path.is_dir()}
        )
        if domain not in domains:
            hint = did_you_mean(domain, domains)
            raise PromptError(
                f"prompts.domain {domain}: no such domain{hint}", f"known are {', '.join(domains)}"
            )
        return cls(
            tuple(
                path
                for root in roots
                for path in (root / "domains" / domain, root, root / PUBLISHED)
                if path.is_dir()
            )
        )

    def words(self) -> dict[str, str]:
        """The words of the domain (words.yaml), for {{ domain.NAME }} in a prompt. Raises PromptError."""
        file = self.module("words.yaml", "prompts.domain")
        words = read_yaml(read_text(file), file)
        if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
            raise PromptError(f"{file}: must be a mapping of names to texts", "see docs/guide/prompts.md")
        return words

    def names(self) -> list[str]:
        """Names of all prompts for configurations."""
        return sorted({file.stem for path in self.paths for file in path.glob("*.md")})

    def prompt(self, name: str) -> Path:
        """The file of a prompt. Raises PromptError with the nearest known name."""
        path = self._find(f"{name}.md")
        if path is not None:
            return path
        names = self.names()
        hint = did_you_mean(name, names)
        general = [entry for entry in names if not entry.startswith(("demo_", "published_", "study_"))]
        cure = f"prompts of your own lie in the folder that prompts.folder names; shipped are {', '.join(general)}"
        raise PromptError(f"prompt {name}: no such prompt{hint}", cure)

    def module(self, relative: str, location: str) -> Path:
        """A file that a prompt refers to, such as modules/question.md. `location` is for messages."""
        module_file = self._find(relative)
        if module_file is not None:
            return module_file
        parent = relative.rpartition("/")[0]
        modules = sorted(
            {f"{parent}/{file.name}" for path in self.paths for file in (path / parent).glob("*.*")}
        )
        hint = did_you_mean(relative, modules)
        looked = " and ".join(str(path) for path in self.paths)
        raise PromptError(f"{location}: {relative} does not exist{hint}", f"it was looked for in {looked}")

    def _find(self, relative: str) -> Path | None:
        if not _RELATIVE.fullmatch(relative) or ".." in relative:
            return None
        candidates = (path / relative for path in self.paths)
        return next((file for file in candidates if file.is_file()), None)


def read_text(file: Path) -> str:
    """The text of a prompt file, with line ends as \\n. Raises PromptError."""
    try:
        data, _ = read_with_state(file, LARGEST + 1)
        if len(data) > LARGEST:
            raise PromptError(f"{file}: is larger than {LARGEST // 1024} KiB", "a prompt is shorter")
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except NotRegular:
        raise PromptError(f"{file}: is not a regular file", "give the name of a text file") from None
    except UnicodeDecodeError as problem:
        raise PromptError(f"{file}: not UTF-8 at byte {problem.start}", "save it as UTF-8") from None
    except OSError as problem:
        raise PromptError(f"{file}: cannot be read: {problem.strerror}", "check its permissions") from None


def read_yaml(text: str, file: Path, first_line: int = 1) -> Any:
    """The plain data of a YAML text of a prompt. Raises PromptError with file and line."""
    try:
        return parse_yaml(text.encode("utf-8", "replace"), str(file), first_line)
    except ConfigError as problem:
        raise PromptError(problem.message, problem.cure or "quote texts that hold : or #") from None
