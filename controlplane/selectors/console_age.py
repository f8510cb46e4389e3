"""How old what is shown is: one row, for the socket's heartbeat. Law: one indexed read; None = never."""

from __future__ import annotations

from controlplane.selectors.common import age_s, cluster_row


def data_age_s() -> float | None:
    """Seconds since the observer had last read the metadata log to its head."""
    return age_s(cluster_row().observed_at)
