"""Questions from literature: documents, BM25, names and proteins in text, QAProt's steps, grounding, rephrasing."""

SECTION = "Documents"
ENTRIES = {
    "anchors": {"abstract": "abstract:AbstractAnchors"},
    "steps": {
        "retrieve": "steps.ground:Retrieve",
        "ground": "steps.ground:Ground",
        "rephrase_medqa": "steps.rephrase:RephraseMedqa",
        "rephrase_medqa_graph": "steps.rephrase:RephraseMedqaGraph",
        "rephrase_pubmedqa": "steps.rephrase:RephrasePubmedqa",
        "extract": "steps.extract:Extract",
        "organism": "steps.extract:Organism",
        "map_protein": "steps.extract:MapProtein",
        "prune": "steps.prune:Prune",
        "delexicalise": "steps.prune:Delexicalise",
        "question_type": "steps.question_type:QuestionType",
        "judged_question_type": "steps.question_type:JudgedQuestionType",
        "judge_support": "steps.judges:JudgeSupport",
        "judge_options": "steps.judges:JudgeOptions",
        "judge_decision": "steps.judges:JudgeDecision",
    },
    "engines": {"index": "engine:IndexEngine"},
    "exports": {"linkbert-medqa": "linkbert:LinkbertMedqa", "linkbert-pubmedqa": "linkbert:LinkbertPubmedqa"},
    "clusterings": {"sequence_cluster": "protein_sets:cluster"},
    "commands": {"index": "cli:index", "mentions": "cli:mentions", "proteins": "cli:proteins"},
}
