"""Questions from literature: documents, BM25, names and proteins in text, QAProt's steps, grounding, rephrasing.

Documents, index, names and proteins (document, read, xml, bm25, names, proteins) know nothing of language
models, runs or steps; docs/guide/documents.md describes the formats and commands.
"""

SECTION = "Documents"
ENTRIES = {
    "anchors": {"abstract": "extract:AbstractAnchors"},
    "steps": {
        "retrieve": "ground:Retrieve",
        "ground": "ground:Ground",
        "rephrase_medqa": "rephrase:RephraseMedqa",
        "rephrase_medqa_graph": "rephrase:RephraseMedqaGraph",
        "rephrase_pubmedqa": "rephrase:RephrasePubmedqa",
        "extract": "extract:Extract",
        "organism": "extract:Organism",
        "map_protein": "extract:MapProtein",
        "prune": "prune:Prune",
        "delexicalise": "prune:Delexicalise",
        "question_type": "judges:QuestionType",
        "judged_question_type": "judges:JudgedQuestionType",
        "judge_support": "judges:JudgeSupport",
        "judge_options": "judges:JudgeOptions",
        "judge_decision": "judges:JudgeDecision",
    },
    "engines": {"index": "engine:IndexEngine"},
    "exports": {"linkbert-medqa": "rephrase:LinkbertMedqa", "linkbert-pubmedqa": "rephrase:LinkbertPubmedqa"},
    "clusterings": {"sequence_cluster": "protein_sets:cluster"},
    "commands": {"index": "cli:index", "mentions": "cli:mentions", "proteins": "cli:proteins"},
}
