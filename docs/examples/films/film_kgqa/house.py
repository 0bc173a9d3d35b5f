"""Engine: a chat server, by the two methods that `HttpEngine` needs."""

from typing import Literal

from kgqa_hpc.engines.http import HttpEngine, HttpSettings


class HouseSettings(HttpSettings):
    kind: Literal["house"] = "house"


class House(HttpEngine):
    """The chat server of the house."""

    name = "house"
    Settings = HouseSettings

    def request(self, request):
        chat = {"model": self.settings.model, "messages": list(request.messages), "format": request.schema}
        return "/api/chat", {**chat, "stream": False, "options": {"seed": request.seed}}

    def response(self, body):
        return body["message"]["content"]
