"""The token that continues a look-up by key: the offset of each partition below which it continues.

A partition that is not named is finished. Does not contain: the query, which the caller repeats.
"""

from __future__ import annotations

import base64
import binascii
import json

from controlplane.domain.errors import Rejected

TOKEN_CHARACTERS_MAX = 100_000
"""Maximum length of a token: some thousand partitions. A token is part of a URL or of a command line."""
OFFSET_MAX = 2**63 - 1
"""The maximum offset, which is an int64 in the protocol."""


def encode_token(before: dict[int, int]) -> str:
    """`before`: partition to offset; -1 for a partition that is not begun. An empty dictionary gives an empty token: the look-up is complete."""
    if not before:
        return ""
    data = json.dumps([[p, o] for p, o in sorted(before.items())], separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_token(token: str) -> dict[int, int]:
    """Raises Rejected for a text that `encode_token` did not return."""
    try:
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise ValueError("too long")
        data = json.loads(base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4)))
        before: dict[int, int] = dict(data)
        if not before or any(type(p) is not int or type(o) is not int for p, o in before.items()):
            raise ValueError("no offsets")
        if any(p < 0 or not -1 <= o <= OFFSET_MAX for p, o in before.items()):
            raise ValueError("out of range")
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise Rejected("The token is invalid; use the token of the previous response.", "token") from None
    return before
