"""Steps: the work on one item (generate, judge, …), as requests to an engine and outcomes. No processes, no disk."""

from kgqa_hpc.registry import Registry

STEPS = Registry(
    "steps",
    "step",
    {
        "generate": "kgqa_hpc.steps.generate:Generate",
        "judge": "kgqa_hpc.steps.judge:Judge",
        "score": "kgqa_hpc.steps.judge:Score",
        "check": "kgqa_hpc.steps.check:Check",
        "word": "kgqa_hpc.steps.generate:Word",
        "verify": "kgqa_hpc.steps.check:Verify",
        "keep": "kgqa_hpc.steps.check:Keep",
    },
)
