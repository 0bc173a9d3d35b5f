"""A step from a function: `@kgqa_hpc.step(columns={"years": ["int64"]})`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kgqa_hpc.columns import Column, Type
from kgqa_hpc.steps.item import Done, Item, Reject
from kgqa_hpc.steps.step import Step


def step(
    function: Callable[[Item], Any] | None = None,
    /,
    *,
    columns: Mapping[str, Type] | None = None,
    needs: Sequence[str] = ("question", "answer"),
    name: str | None = None,
) -> Any:
    """Make a step without requests from a function of the item.

    The function returns the values of its columns as a mapping, or an outcome (`Done`, `Reject` …); None of a function
    without columns is Done. `columns` maps column names to types; `needs` lists the fields that the function reads. The
    step has the function's name and docstring.
    """
    if function is None:
        return lambda inner: step(inner, columns=columns, needs=needs, name=name)
    step_name = name or function.__name__
    bound = function  # a new name, because mypy does not keep the narrowed type inside the method

    def compute(self: Step, item: Item) -> Any:
        value = bound(item)
        if isinstance(value, Mapping):
            return Done(**value)
        if value is None and not self.columns:
            return Done()
        if isinstance(value, Reject) and not value.reason.startswith(f"{self.label}:"):
            return Reject(f"{self.label}: {value.reason}")
        return value

    about = (function.__doc__ or f"The function {step_name}.").strip().split("\n")[0]
    members: dict[str, Any] = {
        "name": step_name,
        "adds": "column",
        "needs": tuple(needs),
        "columns": tuple(Column(key, kind, about) for key, kind in (columns or {}).items()),
        "compute": compute,
        "__doc__": function.__doc__ or about,
        "__module__": function.__module__,
    }
    return type(step_name, (Step,), members)
