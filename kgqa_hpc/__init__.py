"""From a knowledge graph to a judged, traceable question-answer dataset. See docs/architecture.md."""

__version__ = "0.1.0"
