"""Reasoning questions: contexts of a graph for multiple choice, and logic puzzles."""

SECTION = "Reasoning"
ENTRIES = {
    "anchors": {"context": "context:ContextAnchors", "puzzle": "puzzle:PuzzleAnchors"},
    "steps": {"options": "context:Options", "graph_options": "context:GraphOptions"},
}
