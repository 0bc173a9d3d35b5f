"""Parser of scripts and JSON plans, which finds the first error of every faulty command.

Lark's LALR parser is driven token by token: at an error the state before the faulty command is restored, a BROKEN token
takes the command's place, and parsing continues after it.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, StrictBool, ValidationError

from kgqa_hpc.errors import ScriptError
from kgqa_hpc.plugins.gasl.build import Builder, Tree
from kgqa_hpc.plugins.gasl.language import MAX_NESTING, Place, Script, Statement, nearest
from kgqa_hpc.settings import problems_of

if TYPE_CHECKING:
    from lark import Lark
    from lark.parsers.lalr_interactive_parser import InteractiveParser

MAX_BYTES = 256 * 1024
MAX_COMMANDS = 1000

_JOIN = re.compile(r"\\\n")
_NOT_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[\[\]{}]', re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_]+")
_STRING = re.compile(r""""(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*'""")
_PREFIX = re.compile(r"(TRY|CATCH|FINALLY|ON)(?![A-Za-z0-9_])", re.IGNORECASE)
_KEYWORD = re.compile(r'"([A-Z_]+)"')
_NAMED = {"STATUS": ("SUCCESS", "ERROR", "EMPTY", "PARTIAL"), "DIR": ("OUT", "IN", "BOTH")}
# Keywords that could begin a value (first set) or a field path (second set): characters that continue a value or a path
# must not follow them.
_BESIDE_WORD = {"PLAN", "TRUE", "FALSE", "NULL"}
_BESIDE_PATH = {"NOT", "SOURCE_FILTER", "TARGET_FILTER", "FIND"}
_PATH_GOES_ON = r"[A-Za-z0-9_]|\.[A-Za-z0-9_]"


def parse(data: bytes) -> Script:
    """The script of a text or of a JSON plan. Raises ScriptError for the first error."""
    script, problems = read_script(data)
    if problems:
        raise problems[0]
    assert script is not None
    return script


def read_script(data: bytes) -> tuple[Script | None, list[ScriptError]]:
    """The script, or the first error of every faulty command in the order of their places."""
    try:
        reading = _reading_of(data)
    except ScriptError as problem:
        return None, [problem]
    reading.run()
    statements: tuple[Statement, ...] = ()
    if reading.tree is not None:
        statements = Builder(reading.text, reading.place, reading.problems).statements(reading.tree)
    if reading.problems:
        return None, sorted(reading.problems, key=lambda problem: problem.place or (1, 1))
    return Script(statements, hashlib.sha256(data).hexdigest(), *reading.settings), []


def _reading_of(data: bytes) -> _Reading:
    """The text of a script or a plan. Raises ScriptError, `syntax` or `limit`, with the place."""
    if len(data) > MAX_BYTES:
        message = f"the script has {len(data):,} bytes; {MAX_BYTES:,} are allowed"
        raise ScriptError("limit", message, Place(1, 1))
    bad_byte = None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        text, bad_byte = data[: problem.start].decode("utf-8"), data[problem.start]
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if bad_byte is not None:
        raise ScriptError("syntax", f"byte 0x{bad_byte:02X} is not UTF-8", _end(text))
    settings: tuple[str | None, bool, bool] = (None, True, True)
    if text.lstrip().startswith("{"):
        plan = _plan(text)
        settings = plan.plan_id, plan.config.stop_on_error, plan.config.continue_on_empty
        text = "\n".join(re.sub(r"[\r\n]", " ", command) for command in plan.commands)
    starts = (0, *(match.end() for match in re.finditer("\n", text)))
    joins = tuple(match.start() - 2 * count for count, match in enumerate(_JOIN.finditer(text)))
    return _Reading(_JOIN.sub("", text), joins, starts, settings)


def _end(text: str) -> Place:
    """The position after a text."""
    return Place(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _whole(text: str) -> str:
    """The text. Raises ValueError for a lone surrogate, which JSON can escape and no UTF-8 file can store."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("has a \\u escape that is half of a surrogate pair")
    return text


_Text = Annotated[str, AfterValidator(_whole)]
_Command = Annotated[_Text, BeforeValidator(lambda x: x.get("command") if isinstance(x, dict) else x)]


class _Config(BaseModel):
    stop_on_error: StrictBool = True
    continue_on_empty: StrictBool = False


class _Plan(BaseModel):
    """A plan in JSON; other members are ignored."""

    commands: list[_Command]
    plan_id: _Text | None = None
    config: Annotated[_Config, BeforeValidator(lambda value: {} if value is None else value)] = _Config()


def _plan(text: str) -> _Plan:
    """The plan in a JSON text. Raises ScriptError."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_NESTING:
            message = f"the plan is nested more than {MAX_NESTING} deep"
            raise ScriptError("limit", message, Place(1, 1))

    def refuse(_: str) -> Any:
        """Refuse NaN and Infinity, which Python's parser accepts."""
        match = next(m for m in _NOT_JSON.finditer(text) if not m[0].startswith('"'))
        raise ScriptError("syntax", f"not JSON: {match[0]}", _end(text[: match.start()]))

    try:
        return _Plan.model_validate(json.loads(text, parse_int=str, parse_constant=refuse))
    except json.JSONDecodeError as problem:
        offset = problem.pos
        if text[offset : offset + 1] == ",":  # Python 3.13 points at the comma, we at the bracket behind it
            following = re.compile(r",\s*([\]}])").match(text, offset)
            offset = following.start(1) if following else offset
        position = _end(text[: min(offset, len(text.rstrip()))])
        raise ScriptError("syntax", f"not JSON: {problem.msg}", position) from None
    except ValidationError as problem:
        wrong = problems_of(problem)[0]
        message = f"not a plan: {'.'.join(map(str, wrong.key))} {wrong.text}"
        raise ScriptError("syntax", message, Place(1, 1)) from None


@cache
def _grammar() -> Lark:
    from lark import Lark

    text = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    keywords = sorted(set(_KEYWORD.findall(text)))
    text = _KEYWORD.sub(r"_KW_\1", text)
    end = {**dict.fromkeys(_BESIDE_WORD, "[A-Za-z0-9_:.-]"), **dict.fromkeys(_BESIDE_PATH, _PATH_GOES_ON)}
    text += "".join(f"\n_KW_{w}.9: /{w}(?!{end.get(w, '[A-Za-z0-9_]')})/i" for w in keywords)
    return Lark(
        text + "\n", parser="lalr", lexer="contextual", maybe_placeholders=True, propagate_positions=True
    )


def _keywords(parser: InteractiveParser) -> list[str]:
    keywords: list[str] = []
    for terminal in parser.accepts():
        if terminal.startswith("_KW_"):
            keywords.append(terminal[4:])
        elif terminal in ("TRY", "CATCH", "FINALLY"):
            keywords.append(terminal)
        keywords.extend(_NAMED.get(terminal, ()))
    return keywords


@dataclass
class _Reading:
    """One pass over the text of a script. Afterwards `tree` is its parse tree, or None if the text ended early.

    `joins`: the offsets at which a backslash and a line end were removed; `starts`: the offsets at which lines begin.
    `settings`: plan_id, stop_on_error and continue_on_empty of a plan, or those of a script.
    """

    text: str
    joins: tuple[int, ...]
    starts: tuple[int, ...]
    settings: tuple[str | None, bool, bool]
    tree: Tree | None = None
    problems: list[ScriptError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._parser = _grammar().parse_interactive(self.text)
        # For each open block: the parser's state before its latest command, and the command's position.
        self._marks: list[tuple[InteractiveParser, int]] = []
        self._end = self._commands = self._depth = 0  # `_end`: where the last token ended

    def place(self, offset: int) -> Place:
        """The position in the original script of the character at an offset of `text`."""
        original = offset + 2 * bisect_right(self.joins, offset)
        line = bisect_right(self.starts, original) - 1
        return Place(line + 1, original - self.starts[line] + 1)

    def run(self) -> None:
        from lark.exceptions import UnexpectedCharacters, UnexpectedToken

        try:
            while True:
                try:
                    self._read_on()
                    self.tree = self._parser.feed_eof()
                    return
                except UnexpectedCharacters as problem:
                    at = int(problem.pos_in_stream or 0)
                except UnexpectedToken as problem:
                    at = int(problem.token.start_pos or 0) if problem.token.type != "$END" else len(self.text)
                self._note(at)
                if at >= len(self.text):
                    return
                self._resume(at)
        except ScriptError as problem:
            self.problems.append(problem)

    def _read_on(self) -> None:
        for token in self._parser.iter_parse():
            if token.type == "_NL":
                continue
            self._mark(int(token.start_pos or 0))
            if token.type in ("_OPEN", "LPAR", "LSQB"):
                self._depth += 1
                if self._depth > MAX_NESTING:
                    position = self.place(self._marks[-1][1])
                    message = f"the command is nested more than {MAX_NESTING} deep"
                    raise ScriptError("limit", message, position)
            elif token.type in ("_CLOSE", "RPAR", "RSQB"):
                self._depth -= 1
            self._end = int(token.end_pos or 0)

    def _mark(self, offset: int) -> None:
        """Keep the state if a command may begin here; too many commands are a `limit` error."""
        if "BROKEN" not in self._parser.choices():
            return
        self._marks[_open_blocks(self._parser) :] = [(self._parser.copy(deepcopy_values=False), offset)]
        self._commands += _PREFIX.match(self.text, offset) is None
        if self._commands > MAX_COMMANDS:
            position = self.place(offset)
            raise ScriptError("limit", f"the script has more than {MAX_COMMANDS:,} commands", position)

    def _note(self, at: int) -> None:
        self._mark(at)
        if at >= len(self.text) or self.text[at] in "\n;":
            line, column = self.place(self._end - 1) if self._end else (1, 0)
            position = Place(line, column + 1)
            self.problems.append(ScriptError("syntax", "the command is not finished", position))
            return
        word = _WORD.match(self.text, at)
        guess = nearest(word[0], _keywords(self._parser)) if word else None
        excerpt = word[0][:40] if word else self.text[at]
        self.problems.append(ScriptError("syntax", f"{excerpt!r} does not fit here", self.place(at), guess))

    def _resume(self, at: int) -> None:
        """Continue after the faulty command, in the state that a correct command would have left."""
        from lark import Token
        from lark.parsers.lalr_interactive_parser import InteractiveParser
        from lark.utils import TextSlice

        blocks = min(_open_blocks(self._parser), len(self._marks) - 1)
        del self._marks[blocks + 1 :]
        mark, begin = self._marks[blocks]
        behind = self._behind_command(at, in_block=_open_blocks(mark) > 0)
        fresh = _grammar().parse_interactive(TextSlice(self.text, behind, len(self.text)))
        state = mark.copy(deepcopy_values=False).parser_state
        self._parser = InteractiveParser(mark.parser, state, fresh.lexer_thread)
        self._parser.feed_token(Token("BROKEN", "", begin))
        self._depth = _open_blocks(self._parser)
        self._end = behind

    def _behind_command(self, at: int, in_block: bool) -> int:
        """The end of the faulty command: a line end, a `;`, or the brace that closes its block."""
        offset, unclosed = at, ""
        while offset < len(self.text) and self.text[offset] not in "\n;":
            if self.text[offset] == "}" and in_block:
                break
            if self.text[offset] == "#" and self.text[offset - 1 : offset] in ("", " ", "\t"):
                end = self.text.find("\n", offset)
                return end if end >= 0 else len(self.text)
            mark = self.text[offset]
            string = _STRING.match(self.text, offset) if mark in "\"'" and mark not in unclosed else None
            if string is None and mark in "\"'":
                # All later quotation marks of this kind are escaped, too, so none of them begins a string; a
                # test of each would take quadratic time.
                unclosed += mark
            offset = string.end() if string else offset + 1
        return offset


def _open_blocks(parser: InteractiveParser) -> int:
    kinds = [getattr(value, "type", None) for value in parser.parser_state.value_stack]
    return kinds.count("_OPEN") - kinds.count("_CLOSE")
