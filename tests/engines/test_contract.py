"""The contract of every engine, on the embedded engine and on a real server (llama.cpp) with the bundled model.

Never about what the model says: 135 M parameters know little. LMDeploy's contract: tests/engines/lmdeploy.
"""

import json
import os
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from kgqa_hpc.engines.cpu import CpuEngine, CpuSettings
from kgqa_hpc.engines.openai.engine import OpenAIEngine
from kgqa_hpc.engines.openai.settings import OpenAISettings
from tests.engines.asking import BOOLEAN, an_object, answers_of, user, valid
from tests.waiting import gone

pytest.importorskip("xllamacpp", reason="XLLAMACPP IS NOT INSTALLED: NO REAL MODEL TO TEST WITH")
pytestmark = pytest.mark.slow

PATIENCE_S = 300.0
SERVER = textwrap.dedent("""
    import os, sys, threading
    os.environ["OMP_WAIT_POLICY"], os.environ["GOMP_SPINCOUNT"] = "passive", "0"
    import xllamacpp
    from kgqa_hpc.engines.cpu import bundled_model
    params = xllamacpp.CommonParams()
    params.model.path = str(bundled_model())
    params.model_alias = {"smol"}
    params.n_parallel, params.port, params.n_ctx = 2, int(sys.argv[1]), int(sys.argv[2])
    params.warmup, params.verbosity, params.cache_ram_mib, params.ui = False, 0, 0, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.api_keys = [os.environ[name] for name in ("TEST_KEY",) if name in os.environ]
    server = xllamacpp.Server(params)
    threading.Event().wait()
""")
SCHEMA = an_object(grounded=BOOLEAN, word={"enum": ["gene", "disease"]})


def served() -> OpenAIEngine:
    os.environ["TEST_KEY"] = "sk-of-the-test"
    command = [sys.executable, "-c", SERVER, "{port}", "2048"]
    keys = {"model": "smol", "api_key_env": "TEST_KEY", "start_timeout_s": PATIENCE_S}
    return OpenAIEngine(OpenAISettings(command=command, concurrency=2, **keys))


@pytest.fixture(
    scope="module",
    params=[lambda: CpuEngine(CpuSettings(context=1024, slots=2)), served],
    ids=["embedded", "server"],
)
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    before = set(psutil.Process().children(recursive=True))  # what other tests keep, such as a tracker
    engine = request.param()
    yield engine
    servers = set(psutil.Process().children(recursive=True)) - before
    engine.close()
    assert all(gone(process) for process in servers), "a server outlived its engine"
    os.environ.pop("TEST_KEY", None)


def test_each_request_is_answered_once_by_its_schema_and_counted(engine: Any) -> None:
    engine.preflight([SCHEMA])
    names = ["BRCA1", "asthma", "Marfan syndrome"]
    asked = [user(f"Is {name} a gene?", max_tokens=60, schema=SCHEMA) for name in names]
    answers = answers_of(engine, asked).values()
    assert all(a.finish == "stop" and valid(json.loads(a.text), SCHEMA) for a in answers)
    assert all(a.prompt_tokens > 5 and a.completion_tokens > 5 for a in answers)
    if engine.info.name == "openai":
        assert (engine.info.structured, bool(engine.info.server)) == ("gbnf", True)


def test_a_prompt_beyond_the_context_is_that_requests_error(engine: Any) -> None:
    answers = answers_of(engine, [user("word " * 3000, id="long", max_tokens=5), user("Hi", max_tokens=5)])
    assert answers["long"].finish == "error"
    assert "context" in (answers["long"].error or "")
    assert answers["Hi"].finish in {"stop", "length"}


def test_the_token_limit_is_a_length_not_data(engine: Any) -> None:
    (answer,) = answers_of(engine, [user("Tell me a long story about proteins.", max_tokens=4)]).values()
    assert (answer.finish, answer.completion_tokens) == ("length", 4)
