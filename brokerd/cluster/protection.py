"""ZooKeeper connection security: TLS context, SASL credentials, and the ACL of created znodes. Its repr contains no secret."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Protection:
    """`context` creates the TLS context of the next connection; None: no TLS. `user` and `password`: SASL login (DIGEST-MD5). `owned`: created
    znodes are accessible to this user only."""

    context: Callable[[], ssl.SSLContext] | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    owned: bool = False


OPEN = Protection()
"""No TLS, no SASL, znodes without access control."""
