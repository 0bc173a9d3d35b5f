#!/usr/bin/env python3
"""One client through all prompts of a server, in a process of its own: what tools/bench_openai_client.py starts.

    tools/openai_clients.py CLIENT URL REQUESTS IN_FLIGHT      prints one JSON object

The interpreter that runs this must have the client's package; only `kgqa` and `kgqa-engine` need this project. All send
the same prompts and write each answer as a line of a file, except `kgqa-engine` and `openai`, which are
the bare clients. Processor seconds are those of this process and of all that it started and waited for.
"""

import asyncio
import importlib.metadata
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SYSTEM = "Be exact."
# A client that has never asked would be charged for its imports and connections.
WARM_UP = 64
Client = Callable[[str, list[str], int, Path], int]


def prompts(number: int) -> list[str]:
    """`number` different prompts, each as long as a graphlet's prompt with its instructions."""
    return [f"Item {n}.\n" + "- 0: Ataxia (phenotype)\n" * 150 for n in range(number)]


def messages(prompt: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]


def _requests(asked: Iterable[str]) -> list[Any]:
    from kgqa_hpc.engines.engine import Request

    system = messages("")[0]
    return [Request(f"r{n}", (system, messages(prompt)[1])) for n, prompt in enumerate(asked)]


def _settings(url: str, in_flight: int) -> Any:
    from kgqa_hpc.engines.openai.settings import OpenAISettings

    return OpenAISettings(model="m", base_url=f"{url}/v1", concurrency=in_flight, structured="none")


def kgqa(url: str, asked: list[str], in_flight: int, scratch: Path) -> int:
    """Our client as a worker uses it: the engine in its own process, with requests and answers over a socket."""
    from kgqa_hpc.engines.process import EngineProcess

    waiting, answered, sent = list(reversed(_requests(asked))), 0, 0
    with (
        EngineProcess(_settings(url, in_flight), scratch / "engine.log", 600.0) as engine,
        (scratch / "answers.jsonl").open("w") as out,
    ):
        window = engine.start().window or 2 * in_flight
        while waiting or sent:
            batch = [waiting.pop() for _ in range(min(window - sent, len(waiting)))]
            engine.send(batch)
            sent += len(batch)
            for response in engine.receive(1.0):
                sent -= 1
                answered += response.finish == "stop"
                out.write(json.dumps(response._asdict()) + "\n")
    return answered


def kgqa_engine(url: str, asked: list[str], in_flight: int, scratch: Path) -> int:
    """Our engine alone, in this process."""
    from kgqa_hpc.engines.mailbox import Mailbox
    from kgqa_hpc.engines.openai.engine import OpenAIEngine

    engine = OpenAIEngine(_settings(url, in_flight))
    answered = sum(r.finish == "stop" for r in engine.generate(Mailbox.holding(_requests(asked))))
    engine.close()
    return answered


def openai(url: str, asked: list[str], in_flight: int, scratch: Path) -> int:
    """The official client with its defaults, in a minimal loop."""
    from openai import AsyncOpenAI

    async def run() -> int:
        client = AsyncOpenAI(base_url=f"{url}/v1", api_key="none")
        places = asyncio.Semaphore(in_flight)

        async def ask(prompt: str) -> bool:
            async with places:
                done = await client.chat.completions.create(model="m", messages=messages(prompt))  # type: ignore[arg-type]
                return done.choices[0].finish_reason == "stop"

        answered = sum(await asyncio.gather(*map(ask, asked)))
        await client.close()
        return answered

    return asyncio.run(run())


def datatrove(url: str, asked: list[str], in_flight: int, scratch: Path) -> int:
    """datatrove's InferenceRunner with its server type `endpoint` and its JSON lines writer."""
    from datatrove.data import Document
    from datatrove.pipeline.inference.run_inference import InferenceConfig, InferenceRunner
    from datatrove.pipeline.writers import JsonlWriter
    from loguru import logger

    logger.remove()

    async def rollout(document: Any, generate: Any) -> Any:
        return (await generate({"messages": messages(document.text)})).text

    writer = JsonlWriter(str(scratch), "${rank}.jsonl", compression=None)
    config = InferenceConfig(
        server_type="endpoint", model_name_or_path="m", endpoint_url=url, max_concurrent_generations=in_flight
    )
    documents = [Document(text=prompt, id=str(n)) for n, prompt in enumerate(asked)]
    InferenceRunner(rollout, config, writer).run(documents)
    lines = (scratch / "00000.jsonl").read_text().splitlines()
    return sum(bool(json.loads(line)["metadata"]["rollout_results"][0]) for line in lines)


def data_designer(url: str, asked: list[str], in_flight: int, scratch: Path) -> int:
    """NeMo DataDesigner: the prompts as seed dataset, one text column, its own files."""
    import logging

    import data_designer.config as dd
    import pandas
    import tiktoken
    from data_designer.interface import DataDesigner

    def offline(name: str) -> None:
        raise OSError("no network")

    # When all is done it profiles the columns with a vocabulary from the network, and without one tries for long.
    tiktoken.get_encoding = offline

    provider = dd.ModelProvider(name="loopback", endpoint=f"{url}/v1", provider_type="openai", api_key="none")
    model = dd.ModelConfig(
        alias="m", model="m", provider="loopback", skip_health_check=True,
        inference_parameters=dd.ChatCompletionInferenceParams(max_parallel_requests=in_flight),
    )  # fmt: skip
    designer = DataDesigner(scratch, model_providers=[provider], auto_configure_logging=False)
    logging.disable(logging.WARNING)
    designer.set_run_config(dd.RunConfig(otel_metrics_port=None))
    builder = dd.DataDesignerConfigBuilder(model_configs=[model])
    builder.with_seed_dataset(dd.DataFrameSeedSource(df=pandas.DataFrame({"prompt": asked})))
    column = dd.LLMTextColumnConfig(
        name="answer", model_alias="m", prompt="{{ prompt }}", system_prompt=SYSTEM
    )
    builder.add_column(column)
    made = designer.create(builder, num_records=len(asked), dataset_name="bench").load_dataset()
    return int(made["answer"].astype(bool).sum())


CLIENTS: dict[str, tuple[Client, str]] = {  # and the package whose version is told
    "kgqa": (kgqa, "kgqa_hpc"),
    "kgqa-engine": (kgqa_engine, "kgqa_hpc"),
    "openai": (openai, "openai"),
    "datatrove": (datatrove, "datatrove"),
    "data-designer": (data_designer, "data-designer"),
}


def measure(name: str, url: str, number: int, in_flight: int) -> dict[str, Any]:
    """Seconds and processor seconds of one client for `number` prompts, after a small run."""
    client, package = CLIENTS[name]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        client(url, prompts(WARM_UP), in_flight, Path(one))
        began, used = time.monotonic(), _processor_s()
        answered = client(url, prompts(number), in_flight, Path(two))
        wall, processor = time.monotonic() - began, _processor_s() - used
    return {
        "client": name,
        "version": _version(package),
        "requests": number,
        "answered": answered,
        "in_flight": in_flight,
        "requests_per_s": round(number / wall, 1),
        "cpu_ms_per_request": round(1e3 * processor / number, 3),
    }


def _version(package: str) -> str:
    if package == "kgqa_hpc":  # the checkout's, not that of what is installed
        from kgqa_hpc import __version__

        return __version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "?"


def _processor_s() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, who))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
