"""Runs an exported lighteval task with a model that knows every second answer; for an environment with lighteval.

    python lighteval_scripted.py FOLDER/kgqa_task.py OUT.json

lighteval's own tasks are left out: when they are imported they ask the network, and 0.13 fails there with a
newer huggingface_hub.
"""

import json
import sys

from lighteval.logging.evaluation_tracker import EvaluationTracker
from lighteval.models.abstract_model import LightevalModel, ModelConfig
from lighteval.models.model_output import ModelResponse
from lighteval.pipeline import ParallelismManager, Pipeline, PipelineParameters
from lighteval.tasks.registry import Registry
from lighteval.utils.cache_management import SampleCache


class Scripted(LightevalModel):
    """Answers the questions of even number as the reference does."""

    def __init__(self):
        self.config = ModelConfig(model_name="scripted")
        self._cache = SampleCache(self.config)

    tokenizer, add_special_tokens, max_length = None, False, 2048

    def greedy_until(self, docs):
        texts = [doc.choices[0] if int(doc.id) % 2 == 0 else " something else" for doc in docs]
        return [ModelResponse(input=doc.query, text=[text]) for doc, text in zip(docs, texts, strict=True)]

    def loglikelihood(self, docs):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def own_task(custom_tasks, **_):
    return Registry._extract_configs(Registry.create_custom_tasks_module(custom_tasks))


if __name__ == "__main__":
    task, out = sys.argv[1:]
    Registry.load_all_task_configs = staticmethod(own_task)
    pipeline = Pipeline(
        tasks="kgqa|0",
        pipeline_parameters=PipelineParameters(
            launcher_type=ParallelismManager.CUSTOM, custom_tasks_directory=task
        ),
        evaluation_tracker=EvaluationTracker(output_dir=f"{out}.logs"),
        model=Scripted(),
    )
    pipeline.evaluate()
    with open(out, "w") as file:
        json.dump(pipeline.get_results()["results"], file)
