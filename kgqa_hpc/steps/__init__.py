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
        "word": "kgqa_hpc.steps.generate:Word",
        "options": "kgqa_hpc.steps.options:Options",
        "plan": "kgqa_hpc.steps.plan:PlanScript",
        "verify": "kgqa_hpc.steps.check:Verify",
        "retrieve": "kgqa_hpc.steps.retrieve:Retrieve",
        "ground": "kgqa_hpc.steps.ground:Ground",
        "rephrase_medqa": "kgqa_hpc.steps.rephrase_medqa:RephraseMedqa",
        "rephrase_pubmedqa": "kgqa_hpc.steps.rephrase_pubmedqa:RephrasePubmedqa",
        "extract": "kgqa_hpc.steps.extract:Extract",
        "organism": "kgqa_hpc.steps.organism:Organism",
        "map_protein": "kgqa_hpc.steps.map_protein:MapProtein",
        "prune": "kgqa_hpc.steps.prune:Prune",
        "delexicalise": "kgqa_hpc.steps.prune:Delexicalise",
        "question_type": "kgqa_hpc.steps.question_type:QuestionType",
        "judged_question_type": "kgqa_hpc.steps.judged_question_type:JudgedQuestionType",
        "keep": "kgqa_hpc.steps.keep:Keep",
        "judge_support": "kgqa_hpc.steps.judge_support:JudgeSupport",
        "judge_prediction": "kgqa_hpc.steps.judge_prediction:JudgePrediction",
        "judge_options": "kgqa_hpc.steps.rephrase_medqa:JudgeOptions",
    },
)
