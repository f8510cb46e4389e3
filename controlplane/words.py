"""Numbers in sentences. Pure; called wherever a sentence counts something."""

from __future__ import annotations


def some(count: int, one: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`; `many` where an s is not enough."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
