"""Short keys of contents: equal for equal ones, and no tenant finds two others with one."""

import hashlib
from typing import Final

DIGEST_BYTES: Final = 32


def digest(content: bytes) -> bytes:
    """Return the key of a content."""
    return hashlib.sha256(content).digest()
