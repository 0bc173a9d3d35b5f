"""Reader of untrusted YAML: plain data in bounded time, or a ConfigError of one line.

Refused are aliases (a few lines of them can expand to gigabytes, or form a cycle), duplicate keys (YAML would
silently keep the last), nesting deeper and files larger than any configuration.
"""

from pathlib import Path
from typing import Any

import yaml

from kgqa_hpc.errors import ConfigError
from kgqa_hpc.store.regular import NotRegular, read_with_state
from kgqa_hpc.text.plain_text import printable

LARGEST = 256 * 1024  # bytes; PyYAML needs about a second for this size
DEEPEST = 50
CURES = {  # by phrases in libyaml's messages
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
    except FileNotFoundError:
        raise
    except NotRegular:
        raise ConfigError(f"{path}: is not a regular file", "give the name of a YAML file") from None
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}") from None
    return parse_yaml(data, str(path))


def parse_yaml(data: bytes, source: str, first_line: int = 1) -> Any:
    """The plain data of a YAML text. For messages, `source` names its origin and `first_line` is its first
    line's number in the file. Raises ConfigError.
    """
    if len(data) > LARGEST:
        raise ConfigError(f"{source}: more than {LARGEST // 1024} KiB; a configuration is smaller")
    try:
        text = data.decode("utf-8-sig")
        # Aliases and deep nesting are refused before objects are built.
        depth = 0
        for event in yaml.parse(text, _LOADER):
            line = f"{source} line {event.start_mark.line + first_line}" if event.start_mark else source
            if isinstance(event, yaml.AliasEvent):
                raise ConfigError(
                    f"{line}: aliases (*{_printable(str(event.anchor))}) are not allowed; write it out"
                )
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > DEEPEST:
                    raise ConfigError(f"{line}: nested more than {DEEPEST} levels deep")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        return yaml.load(text, _Loader)
    except UnicodeDecodeError:
        raise ConfigError(f"{source}: is not UTF-8 text") from None
    except yaml.YAMLError as problem:
        if "maximum nesting depth" in _words(problem):  # libyaml's own limit, where it has one
            raise ConfigError(f"{source}: nested more than {DEEPEST} levels deep") from None
        words = _words(problem)
        cure = next((cure for sign, cure in CURES.items() if sign in words), "")
        raise ConfigError(f"{source}{_line(problem, first_line)}: not YAML: {words}", cure) from None
    except ValueError as problem:  # a date without a day, a number of a million digits
        raise ConfigError(
            f"{source}: a value that cannot be read: {_printable(str(problem))[:200]}"
        ) from None


class _Loader(_LOADER):
    """A SafeLoader that refuses duplicate keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[Any] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} stands twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def _line(problem: yaml.YAMLError, first_line: int) -> str:
    mark = getattr(problem, "problem_mark", None)
    return "" if mark is None else f" line {mark.line + first_line}"


def _words(problem: yaml.YAMLError) -> str:
    return _printable(str(getattr(problem, "problem", None) or problem))[:200]


def _printable(text: str) -> str:
    return printable(" ".join(text.split()))
