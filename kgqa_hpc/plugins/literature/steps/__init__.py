"""Steps over texts: QAProt's extraction and mapping, retrieval, grounding, rephrasing."""
