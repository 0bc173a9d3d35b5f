"""The template language of prompts: variables, conditions, loops and a few filters, with limits on their work.

A prompt may come with a run folder of another user. Jinja2's sandbox stops a template from using Python objects, but
not from counting to 10^10^10 or printing a gigabyte. Here, templates have no assignment, macro, power, or call except
`range`. Each node of a loop's body, in every turn, and each element that a filter reads counts towards MOST_STEPS. A
text, including intermediate results, has at most LONGEST_TEXT characters.
"""

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jinja2 import (
    Environment,
    StrictUndefined,
    Template,
    TemplateError,
    TemplateSyntaxError,
    nodes,
    pass_context,
    pass_environment,
)
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError

from kgqa_hpc.errors import PromptError

LONGEST_SOURCE = 256 * 1024  # characters with all modules expanded; the longest shipped prompt has 12,000
LONGEST_TEXT = 1_000_000  # characters of a rendered text; more than any model reads
MOST_STEPS = 100_000  # limit of steps to render one item; a graphlet of five nodes takes about a hundred
DEEPEST = 8  # limit of nested loops and conditions; Python itself allows 20
NESTED = 80  # limit of levels of the syntax tree
# The allowed filters of Jinja2; `random` is missing, so that the same item always gives the same prompt.
FILTERS = (
    "abs capitalize count d default dictsort first float int items join last length list lower map max min"
    " reject rejectattr reverse select selectattr sort string title tojson trim truncate unique upper wordcount"
)
_TOO_LONG = f"makes a text of more than {LONGEST_TEXT:,} characters"
_WORDS: dict[type[nodes.Node], str] = {
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.Macro: "macro",
    nodes.CallBlock: "call",
    nodes.FilterBlock: "filter blocks",
    nodes.With: "with",
    nodes.Pow: "**",
    nodes.Include: 'another include than {% include "modules/NAME.md" %}',
    **dict.fromkeys((nodes.Extends, nodes.Import, nodes.FromImport), "loading of other templates"),
}
# Exceptions that rendering a template may raise.
RENDERING = (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError)


class _Work(threading.local):
    """The number of steps left for the template that this thread renders."""

    left = MOST_STEPS

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise SecurityError(f"takes more than {MOST_STEPS:,} steps")


_work = _Work()


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset("*%")

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise SecurityError(f"{operator} works on numbers only")
        return super().call_binop(context, operator, left, right)


@pass_context  # with a context, Jinja2 does not evaluate this filter just once, before an outer loop
def _counted(context: Context, values: Iterable[Any], cost: int) -> Iterator[Any]:
    """The elements of a loop; each costs as many steps as the loop's body has nodes."""
    for value in values:
        _work.spend(cost)
        yield value


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter `function` with its steps counted and the length of its result limited."""
    begin = 1 if hasattr(function, "jinja_pass_arg") else 0

    @functools.wraps(function)
    def bounded(*arguments: Any, **options: Any) -> Any:
        value = arguments[begin]
        _work.spend(len(value) if isinstance(value, str | list | tuple | dict | range) else 1)
        value = function(*arguments, **options)
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise SecurityError(_TOO_LONG)
        return value

    return bounded


def _joined(texts: Iterable[str], between: str) -> str:
    parts: list[str] = []
    size = 0
    for text in texts:
        parts.append(text)
        size += len(text) + len(between)
        if size > LONGEST_TEXT:
            raise SecurityError(_TOO_LONG)
    return between.join(parts)


@pass_environment
def _join(environment: Environment, values: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    """Jinja2's filter `join` with a limit on the length during joining."""
    if attribute is not None:
        values = map(make_attrgetter(environment, attribute), values)
    return _joined(map(str, values), d)


_jinja = _Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
_jinja.globals = {"range": _jinja.globals["range"]}
GLOBALS = frozenset(_jinja.globals)
_jinja.filters["join"] = _join
_jinja.filters = {name: _bounded(_jinja.filters[name]) for name in FILTERS.split()} | {"_counted": _counted}


@functools.lru_cache(maxsize=256)  # prompts share modules and are loaded several times
def parse(source: str, file: Path, offset: int = 0) -> nodes.Template:
    """The syntax tree of a template. Raises PromptError with file and line for syntax outside the language."""
    _work.left = MOST_STEPS  # limits the constant expressions, which Jinja2 evaluates while it parses
    try:
        tree = _jinja.parse(source)
        _look_through(tree, 0, 0)
        tree.set_environment(_jinja)
        _jinja.compile(tree, raw=True)  # finds unknown filters and tests
        return tree
    except TemplateSyntaxError as problem:
        line = offset + problem.lineno
        raise PromptError(f"{file} line {line}: {problem.message}", "mend the template") from None
    except (RecursionError, ValueError, MemoryError) as problem:  # ValueError for a number of 5,000 digits
        reason = "nested too deeply" if isinstance(problem, RecursionError) else problem
        raise PromptError(f"{file}: {reason}", "mend the template") from None


def compiled(tree: nodes.Template) -> Template:
    """A tree of `parse`, ready to be rendered."""
    return _jinja.from_string(tree)


def block(template: Template, name: str, variables: Mapping[str, Any]) -> str:
    """The rendered text of one block of a template. Raises one of the exceptions RENDERING."""
    # template.new_context() takes several times as long, because it copies all globals twice.
    context = _jinja.context_class(_jinja, {**_jinja.globals, **variables}, template.name, template.blocks)
    _work.left = MOST_STEPS
    return _joined(template.blocks[name](context), "").strip()


def line_of(template: Template, problem: BaseException) -> int | None:
    """The line of the template's source at which rendering failed; None if it is unknown."""
    line, trace = None, problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("blocks") is template.blocks:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def _look_through(node: nodes.Node, depth: int, level: int) -> None:
    """Refuse syntax whose work cannot be limited, and count every loop. Raises TemplateSyntaxError."""
    for child in node.iter_child_nodes():
        if problem := _problem(child, depth, level):
            raise TemplateSyntaxError(problem, child.lineno)
        _look_through(child, depth + isinstance(child, nodes.For | nodes.If), level + 1)
        if isinstance(child, nodes.For):
            cost = nodes.Const(1 + sum(1 for statement in child.body for _ in statement.find_all(nodes.Node)))
            child.iter = nodes.Filter(child.iter, "_counted", [cost], [], None, None, lineno=child.lineno)


def _problem(node: nodes.Node, depth: int, level: int) -> str | None:
    if word := _WORDS.get(type(node)):
        return f"{word} is not supported"
    if isinstance(node, nodes.Call) and getattr(node.node, "name", None) != "range":
        return "nothing is called but range(…)"
    if isinstance(node, nodes.For) and node.recursive:
        return "recursive loops are not supported"
    if level > NESTED or depth > DEEPEST:
        return "nested too deeply"
    return None
