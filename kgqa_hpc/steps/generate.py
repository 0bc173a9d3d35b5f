"""Write a question and its answer from an anchor."""

from __future__ import annotations

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.prompts.module import Prompt
from kgqa_hpc.prompts.variables import anchor_variables
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.parse import Unparseable, parse_json
from kgqa_hpc.steps.step import Done, Outcome, Retry, StepContext, request_for, trace_entry, unusable


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
        entry = trace_entry(self.name, self.prompt, self.context, item, response, attempt)
        item.trace.append(entry)
        if trouble := unusable(response):
            return trouble
        try:
            parsed = parse_json(response.text, self.prompt.schema)
        except Unparseable as problem:
            return Retry(problem.reason, lost_as="invalid")
        entry["repaired"] = parsed.repaired
        for name in ("question", "answer"):
            if name in parsed.filled and not self.prompt.allow_cut:
                return Retry(f"too_long:{name}", lost_as="invalid")
        item.output = {"question": parsed.value["question"], "answer": parsed.value["answer"]}
        return Done()
