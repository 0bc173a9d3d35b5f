"""Graph scripts (GASL): the language, questions of kind `script`, and the step `plan`, in which a model writes
scripts.
"""

SECTION = "Graph scripts"
ENTRIES = {
    "anchors": {"script": "script:ScriptAnchors"},
    "steps": {"plan": "plan:PlanScript"},
    "commands": {"gasl": "cli:gasl"},
}
