"""Documents: reading them (MEDLINE, JATS, JSONL, Parquet), finding them (BM25) and finding names in them.

Nothing here knows of language models, runs or steps; docs/guide/documents.md describes the formats and commands.
"""
