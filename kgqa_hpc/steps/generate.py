"""Write a question and its answer from an anchor."""

from __future__ import annotations

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.prompts.module import Prompt
from kgqa_hpc.prompts.variables import anchor_variables
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Retry, StepContext, read_answer, request_for


class Generate:
    """Fills `item.output` with question and answer. Analysis and draft stay in the trace's raw text."""

    name = "generate"

    def __init__(self, prompt: Prompt, context: StepContext) -> None:
        self.prompt = prompt
        self.context = context

    def request(self, item: Item, attempt: int, run_seed: int) -> Request:
        variables = anchor_variables(item.anchor, self.context.edge_types)
        return request_for(self.name, self.prompt, item, variables, attempt, run_seed)

    def accept(self, item: Item, response: Response, attempt: int) -> Outcome:
        parsed = read_answer(self.name, self.prompt, self.context, item, response, attempt)
        if isinstance(parsed, Retry):
            return parsed
        for name in ("question", "answer"):
            if name in parsed.filled and not self.prompt.allow_cut:
                return Retry(f"too_long:{name}", lost_as="invalid")
        item.output = {"question": parsed.value["question"], "answer": parsed.value["answer"]}
        return Done()
