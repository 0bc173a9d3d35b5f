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
        "word": "kgqa_hpc.steps.word:Word",
        "options": "kgqa_hpc.steps.options:Options",
        "plan": "kgqa_hpc.steps.plan:PlanScript",
        "verify": "kgqa_hpc.steps.verify:Verify",
    },
)
