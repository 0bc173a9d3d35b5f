"""Short digests of texts, for ids that depend on content and for random draws that depend on a seed and an id.

A digest depends on the text alone, never on the process, the machine or the time.
"""

from hashlib import blake2b


def short_digest(text: str, size: int = 8) -> bytes:
    """The BLAKE2b digest of the text in `size` bytes."""
    return blake2b(text.encode(), digest_size=size).digest()
