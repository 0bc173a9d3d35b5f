"""Steps: the work on one item (generate, judge, …), as requests to an engine and outcomes. No processes, no disk."""

from kgqa_hpc.registry import Registry

STEPS = Registry(
    "steps",
    "step",
    {
        "generate": "kgqa_hpc.steps.pair:Generate",
        "judge": "kgqa_hpc.steps.pair:Judge",
        "score": "kgqa_hpc.steps.pair:Score",
        "check": "kgqa_hpc.steps.check:Check",
        "word": "kgqa_hpc.steps.pair:Word",
        "verify": "kgqa_hpc.steps.check:Verify",
        "keep": "kgqa_hpc.steps.check:Keep",
    },
)
