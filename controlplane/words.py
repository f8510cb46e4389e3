"""Numbers in sentences. Pure; called wherever a sentence counts or weighs something."""

from __future__ import annotations


def some(count: int, one: str, many: str = "") -> str:
    """`1 partition`, `2 partitions`; `many` where an s is not enough."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def size_text(count: float) -> str:
    """Bytes as a person reads them: `20.0 MB`."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
