"""Exact duplicates: accepted questions that have the words of an earlier accepted one."""

from __future__ import annotations

# An SQL condition on `candidate`: rows behind the first accepted row with the same words.
REPEATED = """
row IN (
  SELECT row FROM candidate WHERE status = 'accepted'
  QUALIFY row_number() OVER (PARTITION BY same ORDER BY row) > 1
)
"""
