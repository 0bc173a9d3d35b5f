"""Reader of untrusted YAML: plain data in bounded time, or a ConfigError of one line.

Refused are aliases (a few lines of them can expand to gigabytes, or form a cycle), duplicate keys (YAML would
silently keep the last), nesting deeper and files larger than any configuration.
"""

from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.store.atomic import NotRegular, read_with_state
from kgqa_hpc.text.plain_text import printable

LARGEST = 256 * 1024  # largest file in bytes; PyYAML needs about a second for it
DEEPEST = 50
CURES = {  # cure of an error by a phrase in libyaml's message
    "tab character": "indent with spaces, not tabs",
    "mapping values are not allowed": 'put a value that holds ": " into quotes, and indent keys of one level equally',
    "cannot start any token": "put a value that begins with @, ` or % into quotes; indent with spaces, not tabs",
    "expected ',' or": "close the bracket or brace, and separate its entries by commas",
    "unexpected end of stream": "close the quote",
    "did not find expected '-' indicator": "a list holds only lines that begin with -; indent the others equally",
    "did not find expected key": "indent keys of one level equally, and put texts that hold quotes into quotes",
    "could not find expected ':'": "write KEY: VALUE on each line",
    "stands twice": "keep one of them",
}
# The C version of the loader, if PyYAML was built with it.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_yaml(path: Path) -> Any:
    """The plain data of a YAML file. Raises FileNotFoundError; ConfigError naming file, line and reason."""
    try:
        data, _ = read_with_state(path, LARGEST + 1)
    except NotRegular:
        raise ConfigError(f"{path}: is not a regular file", "give the name of a YAML file") from None
    except OSError as problem:
        if isinstance(problem, FileNotFoundError):
            raise
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}") from None
    return parse_yaml(data, str(path))


def parse_yaml(data: bytes, source: str, first_line: int = 1) -> Any:
    """The plain data of a YAML text. Raises ConfigError.

    For messages, `source` names the text's origin and `first_line` is the number of its first line in the file.
    """
    if len(data) > LARGEST:
        raise ConfigError(f"{source}: more than {LARGEST // 1024} KiB; a configuration is smaller")
    too_deep = f"nested more than {DEEPEST} levels deep"
    try:
        text = data.decode("utf-8-sig")
        depth = 0
        for event in yaml.parse(text, _LOADER):  # check the events before objects are built
            line = f"{source} line {event.start_mark.line + first_line}" if event.start_mark else source
            if isinstance(event, yaml.AliasEvent):
                alias = _one_line(event.anchor)
                raise ConfigError(f"{line}: aliases (*{alias}) are not allowed; write it out")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ConfigError(f"{line}: {too_deep}")
        return yaml.load(text, _Loader)
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: is not UTF-8 text") from None
    except yaml.YAMLError as problem:
        words = _one_line(getattr(problem, "problem", None) or problem)[:200]
        mark = getattr(problem, "problem_mark", None)
        if "maximum nesting depth" in words:  # libyaml's own limit, where it has one
            raise ConfigError(f"{source}: {too_deep}") from None
        line = "" if mark is None else f" line {mark.line + first_line}"
        cure = next((cure for sign, cure in CURES.items() if sign in words), "")
        raise ConfigError(f"{source}{line}: not YAML: {words}", cure) from None
    except ValueError as problem:  # a date without a day, a number of a million digits
        words = _one_line(problem)[:200]
        raise ConfigError(f"{source}: a value that cannot be read: {words}") from None


class _Loader(_LOADER):
    """A SafeLoader that refuses duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name in seen:
                problem = f"the key {name!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


def _one_line(text: object) -> str:
    return printable(" ".join(str(text).split()))
