"""What the contract tests of the LMDeploy engine begin with: an engine on the installed LMDeploy, its native engine
replaced. A pytest plugin (`-p contract_start`), for LMDeploy lives in an environment of its own (test_engine.py).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from lmdeploy.messages import ResponseType
from lmdeploy_fake import FakeTurboMind, Reply, make_model, native_engine

from kgqa_hpc.engines.engine import Request
from kgqa_hpc.engines.lmdeploy import LmdeployEngine
from kgqa_hpc.engines.lmdeploy_loading import LmdeploySettings

PATIENCE_S = 120.0
Start = Callable[..., tuple[LmdeployEngine, FakeTurboMind]]


def request(text: str, **settings: Any) -> Request:
    return Request(text, ({"role": "user", "content": f"#{text}#"},), **{"max_tokens": 200, **settings})


def name(prompt: str) -> str:
    return prompt.split("#")[1]


def echo(prompt: str) -> str | Exception | ResponseType:
    asked = name(prompt)
    if asked.startswith("boom"):
        return RuntimeError("the native engine threw")
    if asked.startswith("oom"):
        return ResponseType.OUT_OF_MEMORY
    return f"answer to {asked}"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny-model"))


@pytest.fixture
def start(model: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(reply: Reply = echo, **settings: Any) -> tuple[LmdeployEngine, FakeTurboMind]:
            built = stack.enter_context(native_engine(reply))
            settings = {"model": str(model), "session_len": 512, "max_batch_size": 4, **settings}
            engine = LmdeployEngine(LmdeploySettings(**settings))
            stack.callback(engine.close)
            return engine, built[-1]

        yield begin
