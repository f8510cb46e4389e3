"""How ZooKeeper is come to: sealed or not, as whom, and whose the nodes are that are made there. Law: a value; shows no secret."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Protection:
    """`context` makes what the next connection is sealed with. `user`: by SASL (DIGEST-MD5). `owned`: nodes are made for this user alone."""

    context: Callable[[], ssl.SSLContext] | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    owned: bool = False


OPEN = Protection()
"""In the clear, as nobody, nodes that everybody may change."""
