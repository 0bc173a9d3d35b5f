"""All exceptions of the package, as a tree.

KgqaError                        exit 1
├── InputError                   exit 2   the user can mend it: says what, where, and how
│   ├── GraphFormatError                  a graph file: missing column, unknown node, duplicate id
│   ├── EmptyGraphError                   a graph without anything to sample
│   ├── DocumentFormatError               a file of documents or names: not XML, a missing column, damaged
│   ├── ConfigError                       a key or value of the configuration
│   ├── PromptError                       a prompt module: unknown name, undefined variable, bad front matter
│   ├── ExtensionError                    an entry of a registry breaks its contract: names entry and package
│   ├── EngineConfigError                 an engine that cannot start as configured: no model file, no key
│   └── FingerprintMismatch               a run folder that was made with another configuration
├── StoreError                   exit 1   something on disk; the whole state is intact and resumable
│   ├── MissingFile                       a file does not exist, or was moved away
│   ├── CorruptFile                       a damaged file: wrong checksum or magic, truncation
│   ├── NewerFormat                       a file of a later version of this program
│   ├── OlderFormat                       a file of version 0.1: tools/upgrade_v1.py converts the run
│   └── DiskFull                          no space, quota exceeded, read-only, I/O error
├── EngineError                  exit 1   the engine process died or stalled more often than allowed
│   └── EngineDied                        one crash or stall of the engine; the worker starts it again
├── ScriptError                  exit 1   a graph script: what is wrong in which line and column
├── AccountingError              exit 1   sampled != accepted + rejected + invalid + failed
└── StoppedEarly                 exit 75  not a failure: run the same command again
"""


class KgqaError(Exception):
    """Base of all expected errors. `message` says what is wrong and where; `cure` what to do about it.

    `usual_cure` is that of errors for which none is given.
    """

    exit_code = 1
    usual_cure = ""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure or self.usual_cure

    def __str__(self) -> str:
        return f"{self.message}\n       {self.cure}" if self.cure else self.message


class InputError(KgqaError):
    """An input of the user is wrong, and the user can correct it. Nothing was half-written."""

    exit_code = 2


class GraphFormatError(InputError):
    """A graph file cannot be read as a knowledge graph; the message names file and line."""


class EmptyGraphError(InputError):
    """No node, no edge or no graphlet is left to sample from."""


class DocumentFormatError(InputError):
    """A file of documents, names or queries cannot be read; the message names file and line."""


class ConfigError(InputError):
    """The configuration has unknown keys or impossible values; the message lists all of them."""


class PromptError(InputError):
    """A prompt module is unknown, malformed, or uses an undefined variable."""

    usual_cure = "see docs/guide/prompts.md"


class ExtensionError(InputError):
    """A step, kind or other entry breaks its contract; the message names the entry, its package and the item."""


class EngineConfigError(InputError):
    """An engine cannot start as configured: model file missing or unreadable, package not installed."""


class FingerprintMismatch(InputError):
    """The run folder belongs to another configuration; the message names the differences."""


class StoreError(KgqaError):
    """A file or disk operation failed. Committed data is intact, and the same command resumes the work."""


class MissingFile(StoreError):
    """A file does not exist; another process may have moved it since it was last seen."""


class CorruptFile(StoreError):
    """A file is damaged: its bytes differ from those written. Never raised for the format of another version."""


class NewerFormat(StoreError):
    """A file has a format that only a later version of this program can read."""


class OlderFormat(StoreError):
    """A file of version 0.1 of this program, which `tools/upgrade_v1.py` converts."""

    usual_cure = "convert the run: python tools/upgrade_v1.py OLD NEW (in the source of kgqa_hpc)"


class DiskFull(StoreError):
    """The operating system refused a write: no space, quota, read-only file system, I/O error."""


class EngineError(KgqaError):
    """The engine process died or stalled more often than `runtime.engine_restarts` allows."""


class EngineDied(EngineError):
    """The engine process died, stalled, or sent malformed messages; its requests in flight have no answers."""


class ScriptError(KgqaError):
    """A graph script cannot be parsed, or one of its commands failed. See docs/guide/gasl.md, "Errors".

    `kind` is syntax, limit, name, type, assert or model. `place` is (line, column), both from 1; None until the caller
    adds the place of the command. `nearest` is the nearest known word, for a suggestion.
    """

    def __init__(
        self, kind: str, message: str = "", place: tuple[int, int] | None = None, nearest: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.place = place
        self.nearest = nearest

    def __str__(self) -> str:
        line, column = self.place or (1, 1)
        guess = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"line {line}, column {column}: {self.kind}: {self.message}{guess}"

    def report(self) -> dict[str, str | int | None]:
        """The error as plain data, for a script's results."""
        line, column = self.place or (1, 1)
        return {
            "kind": self.kind,
            "line": line,
            "column": column,
            "message": self.message,
            "nearest": self.nearest,
        }


class AccountingError(KgqaError):
    """The counts of a run do not add up; nothing was published."""


class StoppedEarly(KgqaError):
    """A signal or the time limit stopped the work; everything finished is saved. Run the command again."""

    exit_code = 75
    usual_cure = "run the same command again"
