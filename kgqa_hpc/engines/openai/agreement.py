"""Choice of the mode in which all servers enforce schemas, by a test request whose natural answer breaks every
schema.
"""

import asyncio
import re
import time
from collections.abc import Sequence

from kgqa_hpc.engines.openai.chat_api import ChatApi, Trouble
from kgqa_hpc.engines.openai.modes import PROBE, TRIED, keeps_to
from kgqa_hpc.engines.openai.settings import OpenAISettings
from kgqa_hpc.engines.schema import Schema
from kgqa_hpc.errors import EngineConfigError
from kgqa_hpc.terminal import note

PAUSE_S = 0.5
CURABLE_S = 5.0  # s to wait for the first answer after an error that rarely passes by itself
THOUGHT_TOKENS = 4096  # tokens for a model that thinks before it answers the test request
BROKEN = 3  # number of replies with status 500 in a row that count as a refusal of the mode
# Groq's message about an answer that broke the schema, which shows that it enforces schemas.
_ENFORCED = re.compile(r"json_validate_failed|failed to generate json", re.IGNORECASE)


class Agreement:
    """The strongest `mode` that all servers support; `seen`: whether each server's answer confirmed it."""

    def __init__(self, apis: Sequence[ChatApi], structured: str, patience_s: float) -> None:
        self._apis, self._structured, self._patience_s = apis, structured, patience_s
        self.mode = TRIED[structured][0]
        self.seen = True

    @property
    def words(self) -> str:
        """The agreed mode in words, for the provenance."""
        return self.mode if self.seen else f"{self.mode}, not verified"

    async def on(self, schema: Schema) -> None:
        """Send each server a test request with this schema; choose a weaker mode if that is needed and allowed.

        Raises EngineConfigError when no server answers, or refuses key, model or the only mode.
        """
        deadline = time.monotonic() + self._patience_s
        agreed = None
        while agreed != self.mode:  # after a server has weakened the mode, the others are tested again
            agreed = self.mode
            for api in self._apis:
                await self._with(api, schema, deadline)

    async def _with(self, api: ChatApi, schema: Schema, deadline: float) -> None:
        broken = 0
        while True:
            try:
                if await self._honours(api, schema):
                    return
                self._weaken(api, f"{api.url} ignores {self.mode}", refused=False)
            except Trouble as trouble:
                if trouble.fatal:
                    raise EngineConfigError(str(trouble), trouble.cure) from None
                if _ENFORCED.search(str(trouble)):
                    return
                broken += trouble.status == 500  # llama.cpp's reply to an unknown form
                if not trouble.again or (broken >= BROKEN and self.mode != "none"):
                    self._weaken(api, str(trouble), refused=True)
                    broken = 0
                elif time.monotonic() > deadline:
                    raise EngineConfigError(
                        f"engine.base_url: {trouble}", "is the server running, and the address right?"
                    ) from None
                else:
                    await asyncio.sleep(PAUSE_S)

    async def _honours(self, api: ChatApi, schema: Schema) -> bool:
        request = PROBE._replace(schema=dict(schema))
        for tokens in (PROBE.max_tokens, THOUGHT_TOKENS):
            response = await api.ask(request._replace(max_tokens=tokens), self.mode)
            honoured = keeps_to(response, self.mode, schema)
            if honoured is not None:
                return honoured
        self.seen = False  # the answer was only a thought, so it shows nothing
        return True

    def _weaken(self, api: ChatApi, reason: str, *, refused: bool) -> None:
        modes = TRIED[self._structured]
        weaker = modes[modes.index(self.mode) + 1 :]
        if weaker:
            self.mode = weaker[0]
        elif refused and api.dialect.omit_blindly():
            self.mode = modes[0]
        else:
            raise EngineConfigError(
                f"engine.structured: {self._structured} does not work here: {reason}",
                "set engine.structured: auto"
                if self._structured != "auto"
                else "see the server's words; engine.omit leaves parameters out",
            )


async def first_answers(settings: OpenAISettings, patience_s: float) -> None:
    """Ask each server for one token; any reply of a server that knows key and model will do.

    Raises EngineConfigError when one refuses key or model, or is silent for `patience_s`.
    """
    urls = [settings.base_url] if isinstance(settings.base_url, str) else settings.base_url
    for url in urls:
        api = ChatApi(url, settings)
        try:
            await _first_answer(api, patience_s)
        finally:
            await api.close()


async def _first_answer(api: ChatApi, patience_s: float) -> None:
    began = time.monotonic()
    warned = False
    while True:
        try:
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + patience_s):
                await api.ask(PROBE._replace(max_tokens=1), "none")
            return
        except TimeoutError:
            trouble = Trouble(f"{api.url}: no answer within {patience_s:g} s", again=True)
        except Trouble as problem:
            trouble = problem
        if trouble.fatal:
            raise EngineConfigError(str(trouble), trouble.cure)
        if trouble.status and trouble.status < 500:
            return  # the server is up, but busy, or it requires more than one token
        limit = min(CURABLE_S, patience_s) if trouble.cure else patience_s
        if time.monotonic() > began + limit:
            cure = trouble.cure or "is the server running, and the address right?"
            raise EngineConfigError(f"engine.base_url: {trouble}", cure)
        if not warned:
            note(f"note: no answer from {api.url}, trying for {limit:g} s")
            warned = True
        await asyncio.sleep(PAUSE_S)
