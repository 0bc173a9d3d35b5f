"""Short digests of texts: ids that follow from a content, and what is drawn for a seed and an id.

They depend on the text alone, never on the process, the machine or the time.
"""

from __future__ import annotations

from hashlib import blake2b


def short_digest(text: str, size: int = 8) -> bytes:
    """The BLAKE2b digest of the text in `size` bytes."""
    return blake2b(text.encode(), digest_size=size).digest()
