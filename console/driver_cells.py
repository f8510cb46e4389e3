"""HTML of the state and the heartbeat of a Spark driver. Pure.

Invariant: values of a driver that does not report are not shown as current.
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from console import durations
from console import fragments as f
from console.texts import gettext_lazy

HEARTBEAT_LATE_S = 60.0
"""An active Spark driver has reported within this time, and its worker has read the report."""
NO_HEARTBEAT = gettext_lazy(
    "No report of the Spark driver was read since then. Check that the worker runs, and the log of the run on its host."
)


def silent_s(at: datetime | None, active: bool) -> float | None:
    """Seconds since the last report of a driver that should run. None: it is not late, or has not reported yet."""
    age_s = 0.0 if at is None else (datetime.now(UTC) - at).total_seconds()
    return age_s if active and age_s >= HEARTBEAT_LATE_S else None


def driver_state(word: str, at: datetime | None, active: bool) -> SafeString:
    """State of a Spark job. Without a recent report of its driver it is as old as the report, and has the tone of a problem."""
    late_s = silent_s(at, active)
    if late_s is None:
        return f.state(word)
    text = gettext("{state}, no heartbeat for {age}").format(state=f.state_label(word), age=durations.coarse(late_s))
    return format_html('<span class="st st-amber" title="{}">{}</span>', NO_HEARTBEAT, text)


def heartbeat(at: datetime | None, active: bool) -> SafeString:
    """The last report of a Spark driver. If it is old although the driver should run, its age is shown: the other values are as old."""
    shown = f.instant(at, gettext_lazy("The Spark driver has not reported yet."))
    late_s = silent_s(at, active)
    if late_s is None:
        return shown
    hint = gettext("No report of the driver was read since then. The values are of that time.")
    ago = gettext("{age} ago").format(age=durations.coarse(late_s))
    return format_html('{} <span class="t-amber" title="{}">{}</span>', shown, hint, ago)
