"""Graph sources of biomedical projects and of exchange formats: one file a format."""
