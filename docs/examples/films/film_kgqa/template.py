"""Engine: fills a template instead of asking a model."""

import json
from typing import Literal

from kgqa_hpc.engines.engine import EngineInfo, EngineSettings, Response


class TemplateSettings(EngineSettings):
    kind: Literal["template"] = "template"
    year: int = 1968


class TemplateEngine:
    """Fills a template instead of asking a model."""

    name = "template"
    Settings = TemplateSettings

    def __init__(self, settings, memory=None):
        self.year = settings.year
        self.info = EngineInfo(name="template", version="1", model="template-1", max_batch=8)

    def preflight(self, schemas):
        pass

    def generate(self, mailbox):
        for request in mailbox:
            film = request.messages[-1]["content"].split("1: ")[1].split(" (")[0]
            answer = {
                "question": f"Who directed {film} and when was it made?",
                "answer": f"It was made in {self.year}.",
            }
            blank = {"array": [], "boolean": True, "string": "-"}
            fields = request.schema["properties"].items()
            text = {name: answer.get(name, blank[field["type"]]) for name, field in fields}
            yield Response(request.id, json.dumps(text), "stop")

    def close(self):
        pass
