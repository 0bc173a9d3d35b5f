"""Ask whether question and answer hold; never take their text from the judge."""

from __future__ import annotations

from kgqa_hpc.engines.engine import Request, Response
from kgqa_hpc.prompts.module import Prompt
from kgqa_hpc.prompts.variables import anchor_variables, pair_variables
from kgqa_hpc.steps.item import Item
from kgqa_hpc.steps.step import Done, Outcome, Reject, Retry, StepContext, read_answer, request_for


class Judge:
    """Fills `item.verdicts["judge"]`; both booleans must be true (BioGraphletQA, section 3.3)."""

    name = "judge"

    def __init__(self, prompt: Prompt, context: StepContext) -> None:
        self.prompt = prompt
        self.context = context

    def request(self, item: Item, attempt: int, run_seed: int) -> Request:
        variables = pair_variables(item.output)
        if not self.prompt.variables <= variables.keys():  # most judges are not shown the anchor
            variables |= anchor_variables(item.anchor, self.context.edge_types)
        return request_for(self.name, self.prompt, item, variables, attempt, run_seed)

    def accept(self, item: Item, response: Response, attempt: int) -> Outcome:
        parsed = read_answer(self.name, self.prompt, self.context, item, response, attempt)
        if isinstance(parsed, Retry):
            return parsed
        item.verdicts[self.name] = parsed.value
        if not parsed.value["valid_question"]:
            return Reject("judge: invalid question")
        if not parsed.value["original_answer_valid"]:
            return Reject("judge: invalid answer")
        return Done()
