"""Labels of the thresholds that decide about an alert, as conditions: the value alone reads like a measurement of the object. Pure."""

from __future__ import annotations

from console.texts import gettext_lazy
from console.vocabulary import threshold_title
from controlplane.domain.alert_thresholds import ThresholdName, ThresholdScope

CONDITIONS: dict[ThresholdName, str] = {
    ThresholdName.DISK_FREE_LOW: gettext_lazy("Free disk space below (degraded)"),
    ThresholdName.DISK_FREE_LEAST: gettext_lazy("Free disk space below (at risk)"),
    ThresholdName.DISK_FULL_AHEAD: gettext_lazy("Disk full within (degraded)"),
    ThresholdName.DISK_FULL_GRAVE: gettext_lazy("Disk full within (at risk)"),
    ThresholdName.RETENTION_AHEAD: gettext_lazy("Unread records deleted within (degraded)"),
    ThresholdName.RETENTION_GRAVE: gettext_lazy("Unread records deleted within (at risk)"),
    ThresholdName.GROUP_BEHIND: gettext_lazy("Lag of at least, and grown by as much"),
    ThresholdName.GROUP_STALL: gettext_lazy("Stalled: no commit for at least"),
    ThresholdName.GROUP_STOPPED: gettext_lazy("Stopped: no members for at least"),
    ThresholdName.TRANSACTION_HANGING: gettext_lazy("Transaction hangs for more than"),
    ThresholdName.HALF_UNDECIDED: gettext_lazy("Undecided for more than"),
    ThresholdName.HALF_EXPIRED: gettext_lazy("Expired half messages, from"),
    ThresholdName.DELAYED_OVERDUE: gettext_lazy("Late by more than"),
    ThresholdName.DEAD_LETTERS_GROWN: gettext_lazy("New dead letters in 10 minutes, from"),
    ThresholdName.CLIENT_REJECTED: gettext_lazy("Rejected requests per minute, above"),
    ThresholdName.FAILURES_KEPT: gettext_lazy("Alert ends automatically after"),
    ThresholdName.ANOMALY_DISTANCE: gettext_lazy("Median absolute deviations, above"),
}
"""Other thresholds have their titles: they decide about no single alert."""

_CHANGES: dict[ThresholdScope, str] = {
    ThresholdScope.BROKER: gettext_lazy("change for this broker"),
    ThresholdScope.GROUP: gettext_lazy("change for this group"),
    ThresholdScope.TOPIC: gettext_lazy("change for this topic"),
}
_SCOPES: dict[ThresholdScope, str] = {
    ThresholdScope.CLUSTER: gettext_lazy("(value of the cluster)"),
    ThresholdScope.BROKER: gettext_lazy("(own value of this broker)"),
    ThresholdScope.GROUP: gettext_lazy("(own value of this group)"),
    ThresholdScope.TOPIC: gettext_lazy("(own value of this topic)"),
}


def condition_label(name: ThresholdName) -> str:
    return CONDITIONS.get(name) or threshold_title(name)


def change_label(objects: ThresholdScope) -> str:
    """The link to the form of an own value. `objects`: that can have one."""
    return _CHANGES[objects]


def scope_label(scope: ThresholdScope) -> str:
    return _SCOPES[scope]
