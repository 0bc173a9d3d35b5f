"""Table of configuration keys (key, type, default, meaning), derived from the pydantic models."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from kgqa_hpc.settings import StepSettings


class Key(NamedTuple):
    """One key of a configuration; nested keys have dots."""

    key: str
    type: str
    default: str
    meaning: str


def keys_of(
    model: type[BaseModel], left_out: Collection[str] = (), prefix: str = "", *, nested: bool = True
) -> Iterator[Key]:
    """The keys of a model and, if `nested`, of the models within it."""
    for name, field in model.model_fields.items():
        if name in left_out:
            continue
        key = f"{prefix}{field.alias or name}"
        yield Key(key, _name(field.annotation), _default(field), field.description or "")
        inner = _inner(field.annotation)
        if inner is not None and prefix.count(".") < 2 and nested:
            yield from keys_of(inner, (), f"{key}.")


def _inner(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_inner(argument) for argument in get_args(annotation))
    return next((model for model in models if model is not None and model is not StepSettings), None)


def _name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is list:
        return f"list of {_name(arguments[0])}"
    if origin is dict:
        return f"mapping to {_name(arguments[1])}"
    if str(origin) == "typing.Literal":
        return ", ".join(f"`{argument}`" for argument in arguments)
    if hasattr(annotation, "__metadata__"):
        return _name(arguments[0])
    if origin is Union or type(annotation).__name__ == "UnionType":
        return " or ".join(
            dict.fromkeys(_name(argument) for argument in arguments if argument is not type(None))
        )
    words = {"str": "text", "int": "number", "float": "number", "bool": "true, false", "Any": "any"}
    plain_name = getattr(annotation, "__name__", re.sub(r"^.*\.", "", str(annotation)))
    return words.get(plain_name, "section")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "" if "default:" in (field.description or "") else "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel):
        return ""
    plain = sorted(value) if isinstance(value, set | frozenset) else value
    text = value if isinstance(value, str) else json.dumps(plain, default=str)
    return f"`{text}`" if text else ""
