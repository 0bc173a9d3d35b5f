"""Ranked search over documents: BM25 by tantivy, in shards, with the scores of one index."""
