"""What is done to one item: generate, judge, ...: requests out, outcomes in. Knows no process and no disk."""

from kgqa_hpc.registry import Registry

STEPS = Registry(
    "steps",
    "step",
    {
        "generate": "kgqa_hpc.steps.generate:Generate",
        "judge": "kgqa_hpc.steps.judge:Judge",
        "score": "kgqa_hpc.steps.score:Score",
        "check": "kgqa_hpc.steps.check:Check",
        "retrieve": "kgqa_hpc.steps.retrieve:Retrieve",
        "ground": "kgqa_hpc.steps.ground:Ground",
        "rephrase_medqa": "kgqa_hpc.steps.rephrase_medqa:RephraseMedqa",
        "rephrase_pubmedqa": "kgqa_hpc.steps.rephrase_pubmedqa:RephrasePubmedqa",
        "judge_options": "kgqa_hpc.steps.rephrase_medqa:JudgeOptions",
    },
)
