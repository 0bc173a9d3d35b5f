"""Files of prompts: the folders in which they are searched, and the YAML head of each.

Each file of the user's folder overrides the shipped file of the same name: its `p5.md` replaces the prompt p5, and its
`modules/question.md` replaces that module in every prompt that includes it.

The head names the step, the JSON schema of the answer, and the sampling parameters. Schemas use the subset of JSON
Schema that every engine can enforce during decoding (engines/grammar.py): strings (with maxLength, and a pattern that
is a form of texts), enumerations of strings, booleans, integers, numbers, and lists (with maxItems) of these or of
objects of these. runs/chain.py checks that the step exists, and that the schema has the fields that the step reads.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import kgqa_hpc
from kgqa_hpc.engines.grammar import BOUNDS, bounds_hold, read_form
from kgqa_hpc.errors import ConfigError, PromptError
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.settings import problems_of
from kgqa_hpc.store.atomic import read_with_state
from kgqa_hpc.store.yaml_file import parse_yaml
from kgqa_hpc.text.streams import NotRegular

_PACKAGE = Path(kgqa_hpc.__file__).resolve().parent
DOMAIN = "biomedicine"
PUBLISHED = "published"  # folder of prompts with the structure of the paper's prompts
LARGEST = 256 * 1024  # largest size of a file in bytes; the longest shipped prompt has 12,000
_RELATIVE = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")
_KEYS = {
    "string": {"type", "minLength", "maxLength", "pattern", "description"},
    "boolean": {"type", "description"},
    "integer": {"type", "minimum", "maximum", "description"},
    "number": {"type", "minimum", "maximum", "description"},
    "array": {"type", "items", "minItems", "maxItems", "description"},
}
_OBJECT = {"type", "properties", "required", "additionalProperties", "description"}
_GUIDE = PromptError.usual_cure
LONGEST = 20_000  # largest maxLength of an answer's field; shipped prompts ask for far less
MOST = 100  # largest maxItems of a list in an answer


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
            user_folder = Path(expanduser(folder))
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
            raise PromptError(f"{file}: must be a mapping of names to texts")
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
            raise PromptError(f"{file}: is larger than {LARGEST // 1024} KiB", "shorten the prompt")
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


def lacking(fields: Mapping[str, Any], step: str, needed: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each field that `step` reads and that the `fields` of a prompt lack.

    `needed`: types by field name; alternatives are written "integer|number".
    """
    for name, kind in needed.items():
        if fields.get(name, {}).get("type") not in kind.split("|"):
            yield f"a prompt of step {step} needs the {kind.replace('|', ' or ')} field {name} in its schema"


def schema_problems(schema: Any, path: str = "schema", inner: bool = False) -> Iterator[str]:
    """A sentence for each part of `schema` that is outside the supported subset; `inner`: in a list."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{path} must be a mapping with type: object"
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        yield f"{path} needs properties, at least one"
        return
    if unknown := set(schema) - _OBJECT:
        yield f"{path} has the unknown key {sorted(unknown)[0]}"
    if schema.get("required") != list(properties):
        yield f"{path}: required must list all properties, in their order"
    if schema.get("additionalProperties") is not False:
        yield f"{path} needs additionalProperties: false"
    for name, field in properties.items():
        yield from _field_problems(f"schema field {name}", field, inner)


def _field_problems(path: str, field: Any, inner: bool) -> Iterator[str]:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind not in _KEYS or (inner and kind == "array"):
        types = [type_name for type_name in _KEYS if type_name != "array" or not inner]
        yield f"{path}: type must be one of {', '.join(types)}"
    elif "enum" in field:
        values = field["enum"]
        if kind != "string" or not isinstance(values, list) or not values or set(map(type, values)) != {str}:
            yield f"{path}: enum must be a list of strings of a field of type string"
        elif "pattern" in field:
            yield f"{path}: enum and pattern exclude each other"
    elif unknown := set(field) - _KEYS[kind]:
        yield f"{path}: unknown key {sorted(unknown)[0]}"
    elif kind == "string" and not _bounded(field.get("minLength", 0), field.get("maxLength"), LONGEST):
        yield f"{path}: needs maxLength, a whole number up to {LONGEST} and not below minLength"
    elif "pattern" in field:
        try:
            if read_form(str(field["pattern"])).room > field["maxLength"]:
                yield f"{path}: pattern is longer than maxLength"
        except ValueError as problem:
            yield f"{path}: {problem}"
    elif kind in ("integer", "number"):
        bounds = [field[key] for key in ("minimum", "maximum") if key in field]
        numbers = all(type(bound) in (int, float) and isfinite(bound) for bound in bounds)
        if not numbers or bounds != sorted(bounds):
            yield f"{path}: minimum and maximum must be numbers, and minimum not above maximum"
        elif not bounds_hold(field):
            yield f"{path}: {BOUNDS}"
    elif kind == "array":
        if not _bounded(field.get("minItems", 0), field.get("maxItems"), MOST):
            yield f"{path}: needs maxItems, a whole number up to {MOST} and not below minItems"
        items = field.get("items")
        if isinstance(items, dict) and items.get("type") == "object":
            yield from schema_problems(items, f"{path}, items", inner=True)
        else:
            yield from _field_problems(f"{path}, items", items, inner=True)


def _bounded(low: Any, high: Any, limit: int) -> bool:
    return type(low) is type(high) is int and 0 <= low <= high <= limit


class FrontMatter(BaseModel):
    """The keys of a prompt file's head.

    `schema` is the JSON schema of the answer, or the name of a module file that holds it. The first attempt is sampled
    at `temperature` (0: greedy), later attempts at `retry_temperature`, because greedy decoding would repeat the text.
    `allow_cut` accepts a question or answer that was cut off at its maxLength.

    For prompts of other pipelines: `layout` one_message sends the system and user blocks as one user message, `read`
    last_object asks for free text and takes its last JSON object, `attempts` is the largest number of attempts per
    item, `rename` maps fields of the answer to the names that the step reads.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    step: str
    schema_: dict[str, Any] | str = Field(alias="schema")
    max_tokens: int = Field(ge=1, le=100_000)
    temperature: float = Field(0.0, ge=0, le=2)
    retry_temperature: float = Field(0.7, ge=0, le=2)
    allow_cut: bool = False
    # Keys added later: omitted at their defaults, so that the version of older prompts stays the same.
    layout: Literal["two_messages", "one_message"] = Field("two_messages", exclude_if="two_messages".__eq__)
    read: Literal["whole", "last_object"] = Field("whole", exclude_if="whole".__eq__)
    attempts: int | None = Field(None, ge=1, exclude_if=lambda value: value is None)
    rename: dict[str, str] = Field({}, exclude_if=lambda value: not value)
    description: str = ""


def split_front_matter(text: str, file: Path) -> tuple[str, str, int]:
    """Head, body, and the number of lines before the body. Raises PromptError when there is no head."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise PromptError(
            f"{file} line 1: no front matter", f"begin the file with --- and its keys, {_GUIDE}"
        )
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 1
    raise PromptError(f"{file} line 1: the front matter is not closed", "end it with a line ---")


def read_front_matter(head: str, file: Path, folders: Folders) -> dict[str, Any]:
    """Check the head completely and return it with its schema and all defaults, except those of later keys.

    Raises PromptError with file and line of the first problem.
    """
    data = _mapping(head, file, 2)
    try:
        front = FrontMatter.model_validate(data)
    except ValidationError as problem:
        error = min(problems_of(problem), key=lambda mistake: mistake.type == "missing")
        key = str(error.key[0])
        if error.type == "missing":
            raise PromptError(
                f"{file} line 1: the front matter lacks {key}", f"{_GUIDE} for an example"
            ) from None
        keys = [field.alias or name for name, field in FrontMatter.model_fields.items()]
        unknown = f"unknown key {key}{did_you_mean(key, keys)}"
        _refuse(file, head, key, unknown if error.type == "extra_forbidden" else f"{key}: {error.text}")
    path = None
    if isinstance(front.schema_, str):
        path = folders.module(front.schema_, f"{file} line {_line_of(head, 'schema')}")
        front = front.model_copy(update={"schema_": _mapping(read_text(path), path, 1)})
    plain = front.model_dump(mode="json", by_alias=True)  # a date of YAML becomes a text
    for sentence in schema_problems(plain["schema"]):
        if path is not None:
            raise PromptError(f"{path}: {sentence}", f"it is the schema of {file.name}; {_GUIDE}")
        _refuse(file, head, "schema", sentence)
    if strangers := front.rename.keys() - plain["schema"]["properties"].keys():
        _refuse(file, head, "rename", f"rename: the schema has no field {min(strangers)}")
    return plain


def place(file: Path, key: str) -> str:
    """The position of a key in a prompt's head as 'FILE line N', for error messages."""
    head, _, _ = split_front_matter(read_text(file), file)
    return f"{file} line {_line_of(head, key)}"


def _mapping(text: str, file: Path, first_line: int) -> dict[str, Any]:
    data = read_yaml(text, file, first_line)
    if not isinstance(data, dict):
        raise PromptError(f"{file} line {first_line}: must be a mapping of keys to values")
    return data


def _refuse(file: Path, head: str, key: str, problem: str) -> NoReturn:
    raise PromptError(f"{file} line {_line_of(head, key)}: {problem}") from None


def _line_of(head: str, key: str) -> int:
    pattern = re.compile(rf"[\"']?{re.escape(key)}[\"']?\s*:")
    return next((n for n, line in enumerate(head.split("\n"), start=2) if pattern.match(line)), 1)
