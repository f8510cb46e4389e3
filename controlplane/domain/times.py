"""Times of Kafka (milliseconds since 1970) as Python's values. Pure."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_of_ms(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def ms_of_utc(at: datetime) -> int:
    """The reverse of `utc_of_ms`."""
    return round(at.timestamp() * 1000)
