"""Evaluation: studies, agreement of judges, calibration against people, the human kit, text metrics, diversity."""

SECTION = "Evaluation"
ENTRIES = {
    "steps": {"judge_prediction": "judge_prediction:JudgePrediction", "topic": "topic:Topic"},
    "commands": {
        "study": "cli:study",
        "panel": "judges_cli:panel",
        "retest": "judges_cli:retest",
        "hallucination": "judges_cli:hallucination",
        "calibrate": "judges_cli:calibrate",
        "human": "cli:human",
        "grounding": "cli:grounding",
        "score": "cli:score",
        "diversity": "cli:diversity",
    },
}
