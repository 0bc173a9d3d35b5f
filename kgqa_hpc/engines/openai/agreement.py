"""The first requests to servers: they find out whether a server answers, and how all servers enforce schemas.

A mode is tried with a request whose natural answer breaks every schema.
"""

import asyncio
import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.engines.grammar import Schema
from kgqa_hpc.engines.openai.chat_api import ChatApi, Mode
from kgqa_hpc.engines.openai.replies import Trouble
from kgqa_hpc.engines.openai.settings import ChatSettings
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.terminal import note
from kgqa_hpc.text.streams import parse_json

# Values of `engine.structured`, each with the modes that are tried in turn.
TRIED: dict[str, tuple[Mode, ...]] = {
    "auto": ("grammar", "gbnf", "json_schema", "json_object", "none"),
    "grammar": ("grammar", "gbnf"),
    "json_schema": ("json_schema",),
    "json_object": ("json_object",),
    "none": ("none",),
}
FOREIGN_PATIENCE_S = 30.0  # seconds to wait for the first answer of a server that the engine did not start
PAUSE_S = 0.5
CROWDED_S = 300.0  # seconds to wait for a server that has too many requests, as when many workers start
LONGEST_PAUSE_S = 60.0
CURABLE_S = 5.0  # seconds to wait for the first answer after an error that rarely passes by itself
THOUGHT_TOKENS = 4096  # tokens for a model that thinks before it answers the test request
BROKEN = 3  # number of replies with status 500 in a row that count as a refusal of the mode
# Groq's message about an answer that broke the schema, which shows that it enforces schemas.
_ENFORCED = re.compile(r"json_validate_failed|failed to generate json", re.IGNORECASE)
PROBE = Request(
    "probe", ({"role": "user", "content": "Say hello in plain words, not in JSON."},), max_tokens=64
)
PROBE_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


async def first_answer(
    api: ChatApi, request: Request, mode: Mode, patience_s: float, *, busy_suffices: bool = False
) -> Response:
    """The answer to a test request, which is repeated for `patience_s` while the server is silent or too busy.

    Raises Trouble when the server refuses the request (with `busy_suffices` also when it is too busy), and
    EngineConfigError when it refuses key, address or model, or stays silent.
    """
    began, broken, warned, pause = time.monotonic(), 0, False, PAUSE_S
    while True:
        try:
            return await api.ask(request, mode)
        except Trouble as problem:
            trouble = problem
        if trouble.fatal:
            raise EngineConfigError(str(trouble), trouble.cure)
        broken += trouble.status == 500  # llama.cpp's reply to a form of schema that it does not know
        refused = not trouble.again or (broken >= BROKEN and mode != "none")
        if refused or (busy_suffices and 0 < trouble.status < 500):
            raise trouble
        limit = min(CURABLE_S, patience_s) if trouble.cure else patience_s
        cure = trouble.cure or "is the server running, and the address right?"
        if trouble.status == 429:
            limit, cure = max(limit, CROWDED_S), "start again later, or with fewer workers"
            pause = min(trouble.retry_after or 2 * pause, LONGEST_PAUSE_S)
        if time.monotonic() > began + limit:
            raise EngineConfigError(f"engine.base_url: {trouble}", cure)
        if not warned:
            note(f"note: no answer from {api.url}, trying for {limit:g} s")
            warned = True
        await asyncio.sleep(pause)


def ask_once(settings: ChatSettings) -> None:
    """Ask each server for one token, before other work begins; a server of the engine's own starts only with it.

    Raises EngineConfigError when a server does not answer, or refuses key, address or model.
    """

    def ask(url: str) -> None:
        api, request = ChatApi(url, settings, timeout_s=FOREIGN_PATIENCE_S), PROBE._replace(max_tokens=1)
        with suppress(Trouble):  # the server is up, but busy, or it requires more than one token
            api.run(first_answer(api, request, "none", FOREIGN_PATIENCE_S, busy_suffices=True))

    with ThreadPoolExecutor(1) as thread:  # a notebook already runs an event loop in its thread
        for url in settings.urls if settings.command is None else ():
            thread.submit(ask, url).result()


class Agreement:
    """The strongest `mode` that all servers support."""

    def __init__(self, apis: Sequence[ChatApi], structured: str, patience_s: float) -> None:
        self._apis, self._structured, self._patience_s = apis, structured, patience_s
        self.mode = TRIED[structured][0]
        self._verified = list[bool]()  # for each test request, whether its answer confirms the mode

    @property
    def words(self) -> str:
        """The agreed mode in words, for the provenance."""
        return self.mode if self._verified and all(self._verified) else f"{self.mode}, not verified"

    async def on(self, schema: Schema) -> None:
        """Send each server a test request with this schema; choose a weaker mode if that is needed and allowed.

        Raises EngineConfigError when no server answers, or refuses key, model or the only mode.
        """
        agreed = None
        while agreed != self.mode:  # after a server has weakened the mode, the others are tested again
            agreed = self.mode
            for api in self._apis:
                await self._with(api, schema)

    async def _with(self, api: ChatApi, schema: Schema) -> None:
        modes = TRIED[self._structured]
        while True:
            try:
                if await self._honours(api, schema):
                    return
                refused, reason = False, f"{api.url} ignores {self.mode}"
            except Trouble as trouble:
                if _ENFORCED.search(str(trouble)):
                    self._verified.append(True)
                    return
                refused, reason = True, str(trouble)
            if weaker := modes[modes.index(self.mode) + 1 :]:
                self.mode = weaker[0]
            elif refused and api.dialect.omit_blindly():
                self.mode = modes[0]
            else:
                cure = "set engine.structured: auto"
                if self._structured == "auto":
                    cure = "see the server's words; engine.omit leaves parameters out"
                raise EngineConfigError(
                    f"engine.structured: {self._structured} does not work here: {reason}", cure
                )

    async def _honours(self, api: ChatApi, schema: Schema) -> bool:
        for tokens in (PROBE.max_tokens, THOUGHT_TOKENS):
            request = PROBE._replace(schema=dict(schema), max_tokens=tokens)
            response = await first_answer(api, request, self.mode, self._patience_s)
            honoured = _keeps_to(response, self.mode, schema)
            if honoured is not None:
                break
        self._verified.append(honoured is not None)  # an answer that is only a thought shows nothing
        return honoured is not False


def _keeps_to(response: Response, mode: Mode, schema: Schema) -> bool | None:
    """Whether the answer to PROBE shows that the server enforces `mode`; None if it shows nothing."""
    text = response.text.strip()
    if mode == "none":
        return True
    names = None if mode == "json_object" else schema.get("properties")
    if response.finish == "length":  # cut off: test the name of the first property
        if names is None or not text:
            return text[0] in "{[" if text else None
        start = "".join(text.split())
        openings = ("".join(f"{{{json.dumps(name, ensure_ascii=False)}:".split()) for name in names)
        return any(start.startswith(opening) or opening.startswith(start) for opening in openings)
    try:
        value = parse_json(text)
    except ValueError:
        return False
    if names is None:
        return isinstance(value, dict | list)
    return isinstance(value, dict) and set(schema.get("required", ())) <= value.keys()
