"""A Python function as an engine: `engine: {kind: function, call: "module:function"}`.

    def answer(messages, schema, seed):
        return {"question": "...", "answer": "..."}

`messages` are the prompt's {"role", "content"} objects, `schema` is the JSON schema that the answer must follow, `seed`
is that of this attempt. The function returns a text, or an object that is written as JSON. It is called from
`concurrency` threads; an exception fails that request alone and is counted with it.
"""

import hashlib
import importlib.util
import inspect
import json
import os
import pickle
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Request, Response
from kgqa_hpc.engines.mailbox import PoolEngine
from kgqa_hpc.errors import EngineConfigError

Function = Callable[[list[Mapping[str, str]], Mapping[str, Any] | None, int], Any]
PLACES = "its module must lie in the working folder, on PYTHONPATH, or in an installed package"
SAVED = ".pickle"  # file suffix of a function that kgqa_hpc.Run has saved


class FunctionSettings(EngineSettings):
    """A Python function `function(messages, schema, seed)` that returns a text or an object."""

    operational: ClassVar = frozenset({"concurrency"})
    dangerous: ClassVar = frozenset({"call"})

    kind: Literal["function"] = "function"
    call: str = Field(
        pattern=rf"^([\w.]+:[\w.]+|/.*\{SAVED})$", description='The function as "module:function".'
    )
    model: str | None = Field(None, description="Model name in the provenance; default: `call`.")
    concurrency: int = Field(8, ge=1, description="Simultaneous calls.")

    def contents(self) -> dict[str, str]:
        """The digest of the module's file. A saved function has its digest in its name.

        Raises EngineConfigError without the module.
        """
        if self.call.endswith(SAVED):
            return {}
        module, spec = self.call.partition(":")[0], None
        with _working_folder(), suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(module)
        if spec is None:
            raise EngineConfigError(f"engine.call: there is no module {module}", PLACES)
        if spec.origin is None or not spec.has_location:
            return {}  # a module of the interpreter itself has no file
        return {"call": hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()}


class FunctionEngine(PoolEngine):
    """A Python function of your own as the engine."""

    name = "function"
    Settings = FunctionSettings

    def __init__(self, settings: FunctionSettings, memory: Path | None = None) -> None:
        super().__init__(settings.concurrency)
        self._function = _load(settings.call)
        label = Path(settings.call).stem if settings.call.endswith(SAVED) else settings.call
        self.info = EngineInfo("function", "1", settings.model or label, max_batch=settings.concurrency)

    @staticmethod
    def ask_once(settings: FunctionSettings) -> None:
        """Import the function. Raises EngineConfigError if that fails."""
        _load(settings.call)

    def answer(self, request: Request) -> Response:
        value = self._function(list(request.messages), request.schema, request.seed)
        if value is None:
            raise TypeError("the function returned None, not a text or an object")
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return Response(request.id, text, "stop")


@contextmanager
def _working_folder() -> Iterator[None]:
    """Allow imports from the working folder, which is not on the import path of the `kgqa` program."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _load(call: str) -> Function:
    """Import the function. Raises EngineConfigError if that fails, or if it is no function."""
    try:
        if call.endswith(SAVED):
            entry = pickle.loads(Path(call).read_bytes())
        else:
            with _working_folder():
                entry = pkgutil.resolve_name(call)
    except (Exception, SystemExit) as problem:
        raise EngineConfigError(
            f"engine.call: {call} cannot be imported: {type(problem).__name__}: {problem}",
            PLACES,
        ) from problem
    kinds = (inspect.isclass, inspect.iscoroutinefunction, inspect.isgeneratorfunction)
    if not callable(entry) or any(kind(part) for kind in kinds for part in (entry, type(entry).__call__)):
        raise EngineConfigError(
            f"engine.call: {call} is not a function that returns an answer",
            "name a function(messages, schema, seed), not a class, an async function or a generator",
        )
    return entry
