"""Cells of the values of half messages, delayed messages and dead letters in a live update, and the marks of the lists that it reloads. Pure.

Does not contain: the update of a page (`cells`).
"""

from __future__ import annotations

from django.utils.html import format_html

from console import durations
from console import fragments as f
from controlplane.monitoring.live_shapes import TopicMessagesShape


def cells(shape: TopicMessagesShape) -> dict[str, str]:
    """`shape`: a topic of `live_events.MESSAGES`."""
    return {
        "undecided": f.number(shape.get("half_undecided")),
        "oldest": _duration(shape.get("half_oldest_s")),
        "expired": f.count(shape.get("half_expired"), "amber"),
        "pending": f.number(shape.get("delayed_pending")),
        "overdue": _duration(shape.get("delayed_overdue_s"), "amber" if shape.get("delayed_late") else ""),
        "dead": f.count(shape.get("dead_letters"), "amber"),
    }


def marks(t: TopicMessagesShape) -> dict[tuple[str, str], object]:
    """(panel, key) -> value."""
    name = t["name"]
    return {
        (f"half-messages:{name}", ""): (t.get("half_undecided"), t["half_checks"]),
        (f"delayed-messages:{name}", ""): (t.get("delayed_pending"), t["delayed_next_at"]),
    }


def _duration(value_s: float | None, tone: str = "") -> str:
    if value_s is None:
        return f.unknown()
    text = durations.duration(value_s)
    return format_html('<b class="t-{}">{}</b>', tone, text) if tone else format_html("{}", text)
