"""A prompt: assembled from modules, checked completely when it is loaded, rendered in microseconds.

A prompt file is a YAML head and a Jinja2 body of two blocks: `system`, which is the same for every item, so that an
engine's prefix cache processes it once (variables in it are refused), and `user`, which ends with the item. Includes
are expanded first; the sha256 of the expanded source and its head is the version of the prompt. docs/guide/prompts.md
shows an example and lists the variables.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Template, nodes
from jinja2.meta import find_undeclared_variables

from kgqa_hpc.errors import PromptError
from kgqa_hpc.prompts.files import DOMAIN, Folders, read_front_matter, read_text, split_front_matter
from kgqa_hpc.prompts.template_language import (
    GLOBALS,
    LONGEST_SOURCE,
    RENDERING,
    block,
    compiled,
    line_of,
    parse,
)
from kgqa_hpc.registry import did_you_mean
from kgqa_hpc.text.plain_text import clean_value

_INCLUDE = re.compile(r"""\{%-?\s*include\s+["']([^"']+)["']\s*-?%\}\n?""")
_WORD = re.compile(r"\{\{ *domain\.(\w+) *\}\}")
_LOOP = re.compile(r"\{%-?\s*for\s+(.+?)\s+in\b")
_CODE = re.compile(r"\{[{%#]")
_PARTS = "a node has parts, not names: {% for number, name, type in nodes %}- {{ name }}{% endfor %}"
_OF_HEAD = ("step", "schema", "max_tokens", "temperature", "retry_temperature", "allow_cut")
_DEEPEST = 8  # largest depth of includes within includes
_SHOWN = 200  # characters of a line that a message quotes


@dataclass(frozen=True)
class Prompt:
    """A loaded prompt. `sha256` is its version, `system` its constant part, `variables` the names in its user block,
    `text` the whole file with every include and default written out, from which the same prompt can be loaded.
    `one_message`, `last_object`, `attempts` and `rename`: see FrontMatter.
    """

    name: str
    sha256: str
    step: str
    schema: dict[str, Any]
    max_tokens: int
    temperature: float
    retry_temperature: float
    allow_cut: bool
    system: str
    variables: frozenset[str]
    text: str = field(repr=False)
    file: Path = field(repr=False, compare=False)
    _template: Template = field(repr=False, compare=False)
    one_message: bool = False
    last_object: bool = False
    attempts: int | None = None
    rename: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The schema of each field of an answer, by the name that its step reads."""
        return {self.rename.get(name, name): schema for name, schema in self.schema["properties"].items()}

    def render(self, variables: Mapping[str, Any]) -> tuple[dict[str, str], ...]:
        """The messages for one item, with cleaned texts. Raises PromptError for a variable that `variables` lacks."""
        cleaned = {name: clean_value(variables[name]) for name in self.variables if name in variables}
        try:
            user = block(self._template, "user", cleaned)
        except RENDERING as problem:
            parts = "tuple object" in str(problem)
            raise PromptError(
                f"prompt {self.name}: {self._position(problem)}{problem}",
                _PARTS if parts else "see docs/guide/prompts.md for the variables",
            ) from None
        if self.one_message:
            return ({"role": "user", "content": f"{self.system}\n{user}"},)
        return ({"role": "system", "content": self.system}, {"role": "user", "content": user})

    def _position(self, problem: Exception) -> str:
        """File, number and text of the line that failed; for a line of a module, without the number."""
        number = line_of(self._template, problem)
        if number is None:
            return ""
        text = self.text.partition("\n---\n")[2].split("\n")[number - 1].strip()
        lines = [line.strip() for line in read_text(self.file).split("\n")] if self.file.is_file() else []
        location = (
            f"{self.file} line {lines.index(text) + 1}" if text in lines else f"{self.file}, in a module"
        )
        return f"{location}: {text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}: "

    def identity(self) -> dict[str, str]:
        """Name and version of the prompt, as stored in provenance and fingerprints."""
        return {"name": self.name, "sha256": self.sha256}


def load_prompt(name: str, folder: str | Path | None = None, domain: str = DOMAIN) -> Prompt:
    """Find, assemble and check the prompt `name`; `folder` is the user's own, `domain` selects the words of a
    subject area.

    Raises PromptError for an unknown name, a missing module, a bad head (with file and line), a template syntax error,
    or a variable in the system block. `try_prompt` checks the variables.
    """
    folders = Folders.with_user(folder, domain)
    file = folders.prompt(name)
    head, body, offset = split_front_matter(read_text(file), file)
    front = read_front_matter(head, file, folders)
    source = _with_words(_expand(body, file, offset, folders, (), {}), folders, file)
    tree = parse(source, file)
    _check_layout(tree, file)
    template = compiled(tree)
    try:
        system = block(template, "system", {})
    except RENDERING as problem:
        raise PromptError(f"{file}: the system block: {problem}", "mend the template") from None
    return Prompt(
        name=name,
        sha256=hashlib.sha256(f"{json.dumps(front, ensure_ascii=False)}\n---\n{source}".encode()).hexdigest(),
        **{name: front[name] for name in _OF_HEAD},
        system=system,
        variables=frozenset(find_undeclared_variables(tree)) - GLOBALS,
        text=f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n{source}",
        file=file,
        _template=template,
        one_message=front.get("layout") == "one_message",
        last_object=front.get("read") == "last_object",
        attempts=front.get("attempts"),
        rename=front.get("rename", {}),
    )


def try_prompt(prompt: Prompt, location: str, samples: Sequence[Mapping[str, Any]]) -> None:
    """Render a prompt with sample variables, so that no variable is undefined during the run.

    Every name in the template must be in all samples, even in branches that no sample takes. Raises PromptError.
    """
    for sample in samples:
        cure = f"it may name {', '.join(sample)}"
        for name in sorted(prompt.variables - sample.keys()):
            loop_variables = re.findall(r"\w+", " ".join(_LOOP.findall(prompt.text)))
            hint = did_you_mean(name, {*sample, *loop_variables})
            # The first line whose template code uses the name; no line if only an included module uses it.
            code = re.compile(rf"{{[{{%][^}}]*\b{re.escape(name)}\b")
            numbers = [n for n, line in enumerate(read_text(prompt.file).split("\n"), 1) if code.search(line)]
            line = f", {prompt.file} line {numbers[0]}" if numbers else ""
            raise PromptError(f"{location}: prompt {prompt.name}{line}: '{name}' is undefined{hint}", cure)
        try:
            prompt.render(sample)
        except PromptError as problem:
            raise PromptError(f"{location}: {problem.message}", f"{problem.cure}; {cure}") from None


def _expand(
    source: str, file: Path, offset: int, folders: Folders, within: tuple[Path, ...], texts: dict[Path, str]
) -> str:
    """Replace each include by the text of its file, depth first; each file is checked separately, once."""
    if file in within or len(within) > _DEEPEST:
        chain = " -> ".join(path.name for path in (*within, file))
        raise PromptError(f"{file}: includes itself: {chain}", "break the circle")
    outside = _INCLUDE.sub(lambda match: "\n" * match[0].count("\n"), source)
    if _CODE.search(outside):  # most modules have no template code
        parse(outside, file, offset)

    def text_of(match: re.Match[str]) -> str:
        line = offset + source.count("\n", 0, match.start()) + 1
        module = folders.module(match[1], f"{file} line {line}")
        if module not in texts:
            text = read_text(module).strip("\n") + "\n"
            texts[module] = _expand(text, module, 0, folders, (*within, file), texts)
        return texts[module]

    text = _INCLUDE.sub(text_of, source)
    if len(text) > LONGEST_SOURCE:  # at each level, because repeated includes multiply the length
        raise PromptError(f"{file}: more than {LONGEST_SOURCE:,} characters", "shorten the prompt")
    return text


def _with_words(source: str, folders: Folders, file: Path) -> str:
    """Replace {{ domain.NAME }} by the words of the domain, which are part of the prompt's text and version."""
    words = folders.words() if _WORD.search(source) else {}

    def word(match: re.Match[str]) -> str:
        if match[1] not in words:
            hint = did_you_mean(match[1], words)
            raise PromptError(f"{file}: domain.{match[1]} is no word of the domain{hint}", "see words.yaml")
        return words[match[1]]

    return _WORD.sub(word, source)


def _check_layout(tree: nodes.Template, file: Path) -> None:
    """Require exactly the blocks system (constant) and user."""
    blocks = {block.name: block for block in tree.find_all(nodes.Block)}
    if set(blocks) != {"system", "user"}:
        raise PromptError(f"{file}: needs the blocks system and user and no others")
    for node in tree.body:
        stray = node.nodes if isinstance(node, nodes.Output) else []
        if any(not isinstance(part, nodes.TemplateData) or part.data.strip() for part in stray):
            raise PromptError(
                f"{file}: text outside of the blocks system and user", "move it into one of them"
            )
    system = nodes.Template(blocks["system"].body, lineno=1)
    system.environment = tree.environment
    if used := find_undeclared_variables(system):
        names = ", ".join(sorted(used))
        raise PromptError(
            f"{file}: the system block uses {names}", "it must be constant; move variables to the user block"
        )
