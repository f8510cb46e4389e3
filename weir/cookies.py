"""Names of the console's own cookies. Pure.

Invariant: browsers keep cookies by host name and not by port, so consoles on one host name need different names. Web processes of one console have the
same. Does not contain: cookies of the language and the theme, which all consoles of a host may share.
"""

from __future__ import annotations

import hashlib

MARK_CHARS = 8
"""Characters of the mark of a console: two of a hundred consoles have the same with a probability of one in a million."""


def cookie_mark(secret_key: str) -> str:
    """Return the mark of the console in the names of its cookies. Web processes with the same key have the same mark. It does not reveal the key."""
    return hashlib.sha256(b"weir.cookies:" + secret_key.encode()).hexdigest()[:MARK_CHARS]
