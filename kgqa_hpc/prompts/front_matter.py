"""The YAML head of a prompt file: which step it serves, what its answer must look like, how it is decoded."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.flat_schema import NEEDED, schema_problems
from kgqa_hpc.prompts.folders import Folders, read_text

# The same, in C, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class FrontMatter:
    """One field is one key of the head.

    `schema` is the JSON schema of the answer, or the name of a module file that holds it. A first attempt
    is decoded at `temperature` (0: greedy), a repeated one at `retry_temperature`: greedy again would give
    the same text again. `allow_cut` takes a question or answer that was cut off at its maxLength.
    """

    step: str
    schema: dict[str, Any]
    max_tokens: int
    temperature: float = 0.0
    retry_temperature: float = 0.7
    allow_cut: bool = False
    description: str = ""


def split_front_matter(text: str, file: Path) -> tuple[str, str, int]:
    """Head, body, and the number of lines before the body. Raises PromptError when there is no head."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        raise PromptError(
            f"{file} line 1: no front matter", "begin the file with --- and its keys, see docs/prompts.md"
        )
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == "---":
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :]), number + 1
    raise PromptError(f"{file} line 1: the front matter is not closed", "end it with a line ---")


def read_front_matter(head: str, file: Path, folders: Folders) -> FrontMatter:
    """Check the head completely. Raises PromptError with file and line of the first problem."""
    data = _load_yaml(head, file, 2)
    known = {field.name for field in fields(FrontMatter)}
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(str(key), sorted(known), n=1, cutoff=0.5)
            _refuse(file, head, key, f"unknown key {key}" + (f", did you mean {near[0]}?" if near else ""))
    for key in ("step", "schema", "max_tokens"):
        if key not in data:
            raise PromptError(
                f"{file} line 1: the front matter lacks {key}", "see docs/prompts.md for an example"
            )
    if data["step"] not in NEEDED:
        _refuse(file, head, "step", f"step must be one of {', '.join(NEEDED)}")
    for key, (low, high) in {
        "max_tokens": (1, 100_000),
        "temperature": (0, 2),
        "retry_temperature": (0, 2),
    }.items():
        value = data.get(key, low)
        whole = key == "max_tokens"
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not low <= value <= high
        ):
            _refuse(
                file, head, key, f"{key} must be a {'whole ' if whole else ''}number from {low} to {high}"
            )
    for key, kind in (("allow_cut", bool), ("description", str)):
        if not isinstance(data.get(key, kind()), kind):
            _refuse(file, head, key, f"{key} must be {'true or false' if kind is bool else 'a text'}")
    if isinstance(data["schema"], str):
        data["schema"] = _schema_of_file(data["schema"], data["step"], file, head, folders)
    else:
        for problem in schema_problems(data["schema"], data["step"]):
            _refuse(file, head, "schema", problem)
    return FrontMatter(**data)


def _schema_of_file(name: str, step: str, file: Path, head: str, folders: Folders) -> dict[str, Any]:
    path = folders.module(name, f"{file} line {_line_of(head, 'schema')}")
    schema = _load_yaml(read_text(path), path, 1)
    for problem in schema_problems(schema, step):
        raise PromptError(f"{path}: {problem}", f"it is the schema of {file.name}; see docs/prompts.md")
    return schema


def _load_yaml(text: str, file: Path, first_line: int) -> dict[str, Any]:
    try:
        data = yaml.load(text, Loader=_LOADER)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = first_line + (mark.line if mark else 0)
        what = getattr(problem, "problem", None) or " ".join(str(problem).split())
        raise PromptError(f"{file} line {line}: not YAML: {what}", "quote texts that hold : or #") from None
    if not isinstance(data, dict):
        raise PromptError(
            f"{file} line {first_line}: must be a mapping of keys to values", "see docs/prompts.md"
        )
    return data


def _refuse(file: Path, head: str, key: object, problem: str) -> None:
    raise PromptError(f"{file} line {_line_of(head, key)}: {problem}", "see docs/prompts.md")


def _line_of(head: str, key: object) -> int:
    lines = head.split("\n")
    pattern = re.compile(rf"[\"']?{re.escape(str(key))}[\"']?\s*:")
    return next((number for number, line in enumerate(lines, start=2) if pattern.match(line)), 1)
