"""Evaluation: studies, agreement of judges, calibration against people, the human kit, text metrics, diversity."""

SECTION = "Evaluation"
ENTRIES = {
    "steps": {"judge_prediction": "score:JudgePrediction", "topic": "topic:Topic"},
    "commands": {
        "study": "cli:study",
        "panel": "cli:panel",
        "retest": "cli:retest",
        "hallucination": "cli:hallucination",
        "calibrate": "cli:calibrate",
        "human": "cli:human",
        "grounding": "cli:grounding",
        "score": "cli:score",
        "diversity": "cli:diversity",
    },
}
