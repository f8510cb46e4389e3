"""Words and marks of offset resets on pages."""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import durations
from console.texts import gettext_lazy
from controlplane.domain.offset_reset_types import StoredReset

TARGETS = {
    "earliest": gettext_lazy("Earliest"),
    "latest": gettext_lazy("Latest"),
    "time": gettext_lazy("Timestamp"),
    "offset": gettext_lazy("Offset"),
    "shift": gettext_lazy("Shift by records"),
    "group": gettext_lazy("Copy from a group"),
    "file": gettext_lazy("List of offsets"),
    "delete": gettext_lazy("Delete offsets"),
    "undo": gettext_lazy("Undo"),
}

STATES = {
    "previewed": (gettext_lazy("preview"), "grey"),
    "waiting": (gettext_lazy("waits until the group is empty"), "blue"),
    "applying": (gettext_lazy("applying"), "blue"),
    "applied": (gettext_lazy("applied"), "calm"),
    "failed": (gettext_lazy("failed"), "red"),
    "cancelled": (gettext_lazy("cancelled"), "grey"),
    "expired": (gettext_lazy("wait expired"), "amber"),
}
"""State: label, tone."""

PROBLEMS = {
    "no_partition": gettext_lazy("The partition does not exist."),
    "no_leader": gettext_lazy("The partition has no leader that responds."),
    "no_committed_offset": gettext_lazy("The group has no committed offset here."),
    "no_source_offset": gettext_lazy("The source group has no committed offset here."),
    "open_transaction": gettext_lazy("An open transaction has written an offset."),
}

LIMITS = {
    "log_start": gettext_lazy("limited to the log start offset"),
    "log_end": gettext_lazy("limited to the log end offset"),
}


def reset_state(state: str) -> SafeString:
    label, tone = STATES[state]
    return format_html('<span class="st st-{}">{}</span>', tone, label)


def reset_span(span_ms: int | None, at_least: bool) -> SafeString:
    """Time between the records at the two offsets."""
    if span_ms is None:
        return format_html(
            '<span class="unk" title="{}">–</span>', _("The end of the log was not observed for that long.")
        )
    text = durations.duration(span_ms / 1000)
    return (
        format_html('<span title="{}">&gt; {}</span>', _("The records may be further apart."), text)
        if at_least
        else format_html("{}", text)
    )


def reset_value(spec: StoredReset) -> SafeString:
    """The value of a reset: its time, offset, shift or source group."""
    if (time_ms := spec.get("time_ms")) is not None:
        try:
            return format_html(
                "<small>{} UTC</small>", f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"
            )
        except (OverflowError, ValueError):
            return format_html("<small>{} ms</small>", time_ms)
    if (shift := spec.get("shift")) is not None:
        return format_html("{}", f"{shift:+,}".replace("-", "−"))
    if (offset := spec.get("offset")) is not None:
        return format_html("{}", f"{offset:,}")
    return format_html("<small>{}</small>", spec.get("source_group", ""))
