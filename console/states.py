"""States of objects: their tone, and their label where it differs from the stored word.

Invariants: each state that a page shows has a tone. Colour means state only. The REST API returns the stored words. Does not contain: HTML
(`console.fragments`).
"""

from __future__ import annotations

from console.texts import gettext_lazy

# Tone of each state: amber degraded, red data at risk, blue in progress, grey unknown or finished, "" normal.
TONES: dict[str, str] = {
    # health, brokers
    "healthy": "", "degraded": "amber", "at_risk": "red", "unknown": "grey", "alive": "", "down": "red", "silent": "amber",
    "cordoned": "amber", "demoted": "amber", "demoting": "amber", "restarting": "blue", "not_safe": "amber", "catching_up": "blue", "skipped": "grey", "empty": "", "corrupt": "red", "disk": "red", "lost": "amber", "diverged": "amber",
    # topics, partitions, replicas
    "active": "", "in_sync": "", "creating": "blue", "changing": "blue", "deleting": "blue", "drift": "amber", "moving": "blue",
    "offline": "red", "under_min_isr": "red", "under_replicated": "amber", "out_of_sync": "amber", "leader": "", "follower": "",
    # elections of preferred leaders
    "electable": "blue", "preferred_leads": "", "no_leader": "red", "broker_offline": "amber", "leadership_disabled": "amber", "not_in_isr": "amber", "handing_over": "blue",
    # groups
    "Stable": "", "PreparingRebalance": "blue", "CompletingRebalance": "blue", "NotReady": "amber", "Assigning": "blue", "Reconciling": "blue", "Empty": "grey", "Dead": "grey",
    # connectors and their tasks
    "RUNNING": "", "PAUSED": "grey", "STOPPED": "grey", "FAILED": "red", "UNASSIGNED": "amber", "RESTARTING": "blue", "DESTROYED": "grey", "UNKNOWN": "grey",
    # transactions
    "Ongoing": "blue", "PrepareCommit": "blue", "PrepareAbort": "blue", "PrepareEpochFence": "blue", "CompleteCommit": "", "CompleteAbort": "grey",
    # half messages
    "unchecked": "grey", "checked": "blue", "overdue": "amber", "expiring": "amber",
    # moves, parts, recoveries, jobs
    "planned": "grey", "approved": "grey", "running": "blue", "paused": "grey", "verifying": "blue", "cancelling": "blue",
    "rolling_back": "blue", "done": "", "cancelled": "grey", "rolled_back": "grey", "failed": "red", "waiting": "grey",
    "starting": "blue", "bootstrapping": "blue", "ready": "", "truncating": "amber", "unfit": "red", "deadline_passed": "amber", "submitted": "blue", "copying": "blue", "comparing": "blue", "reverted": "grey", "part.rejected": "red", "requested": "blue",
    "no_space": "amber", "target_down": "red", "source_down": "red", "throttle": "amber", "fetch_error": "amber", "controller": "amber",
    "will_not_finish": "amber", "reset": "blue", "stopping": "blue", "stopped": "grey",
    # disks of log directories ("healthy" and "failed" are above)
    "slow": "amber", "hung": "red",
    # alerts
    "resolved": "grey",
    # plans, proposals
    "saved": "grey", "dropped": "grey",
    "open": "amber", "rejected": "grey", "withdrawn": "grey", "expired": "grey",
    # changes
    "pending": "blue", "not_applied": "blue", "confirmed": "", "unchanged": "grey", "refused": "amber", "outcome.unknown": "amber",
    # notifications
    "sending": "blue", "retrying": "amber", "delivered": "", "failing": "red", "delivering": "", "disabled": "grey", "unused": "grey",
    # acls
    "allow": "", "deny": "",
}  # fmt: skip


STATE_LABELS = {
    "RUNNING": gettext_lazy("running"),
    "PAUSED": gettext_lazy("paused"),
    "STOPPED": gettext_lazy("stopped"),
    "FAILED": gettext_lazy("failed"),
    "UNASSIGNED": gettext_lazy("unassigned"),
    "RESTARTING": gettext_lazy("restarting"),
    "DESTROYED": gettext_lazy("destroyed"),
    "UNKNOWN": gettext_lazy("unknown"),
    "deadline_passed": gettext_lazy("retention deadline passed"),
    "dropped": gettext_lazy("archived"),
    "under_replicated": gettext_lazy("under-replicated"),
    "under_min_isr": gettext_lazy("under min ISR"),
    "demoted": gettext_lazy("leadership off"),
    "moving": gettext_lazy("reassigning"),
    "electable": gettext_lazy("would change"),
    "preferred_leads": gettext_lazy("preferred leader"),
    "not_applied": gettext_lazy("not applied yet"),
    "not_in_isr": gettext_lazy("not in ISR"),
    "not_safe": gettext_lazy("waiting: not safe"),
    "silent": gettext_lazy("not responding"),
    "unchecked": gettext_lazy("not checked yet"),
    "unfit": gettext_lazy("mode not possible"),
    "unused": gettext_lazy("not used yet"),
    "waiting": gettext_lazy("queued"),
}
"""Label of a state where it differs from the stored value. The REST API returns the stored value."""

OUTCOME_LABELS = {
    "confirmed": gettext_lazy("succeeded"),
    "unchanged": gettext_lazy("no change"),
    "refused": gettext_lazy("rejected"),
}
"""Label of a change's outcome where it differs from the stored value."""

LAG_STATUSES: dict[str, tuple[str, str, str]] = {
    "healthy": (
        gettext_lazy("Healthy"),
        "",
        gettext_lazy("The group reads as fast as records arrive, or it was observed too briefly for another status."),
    ),
    "idle": (gettext_lazy("Idle"), "grey", gettext_lazy("No members and no lag.")),
    "not_subscribed": (
        gettext_lazy("Not subscribed"),
        "grey",
        gettext_lazy("No member is subscribed to this topic; the committed offsets are old."),
    ),
    "catching_up": (
        gettext_lazy("Catching up"),
        "blue",
        gettext_lazy("The group has lag and reads faster than records arrive."),
    ),
    "blocked": (gettext_lazy("Blocked"), "amber", gettext_lazy("No consumer can read further in this partition.")),
    "falling_behind": (
        gettext_lazy("Falling behind"),
        "amber",
        gettext_lazy("Records arrive faster than the group reads."),
    ),
    "stalled": (
        gettext_lazy("Stalled"),
        "amber",
        gettext_lazy("The committed offset is unchanged with lag, for longer than usual for this consumer."),
    ),
    "stopped": (gettext_lazy("Stopped"), "amber", gettext_lazy("No members and no commits, with lag.")),
    "rewound": (gettext_lazy("Rewound"), "amber", gettext_lazy("The committed offset moved backwards.")),
    "data_lost": (
        gettext_lazy("Data lost to retention"),
        "red",
        gettext_lazy("Retention deleted records before the group read them."),
    ),
    "unknown": (gettext_lazy("Unknown"), "grey", gettext_lazy("No committed offset, or no broker responded.")),
}
"""Status of a group: label, tone, explanation. The tone is that of the severity of its alert."""

SHARE_LAG_STATUSES = LAG_STATUSES | {
    "not_subscribed": (
        gettext_lazy("Not subscribed"),
        "grey",
        gettext_lazy("No member is subscribed to this topic."),
    ),
    "stalled": (
        gettext_lazy("Stalled"),
        "amber",
        gettext_lazy("The start offset is unchanged with lag, for longer than usual for this group."),
    ),
    "stopped": (gettext_lazy("Stopped"), "amber", gettext_lazy("No members, with lag.")),
    "rewound": (gettext_lazy("Rewound"), "amber", gettext_lazy("The start offset moved backwards.")),
    "unknown": (
        gettext_lazy("Unknown"),
        "grey",
        gettext_lazy("No member has fetched yet, or the cluster monitor has not observed the group."),
    ),
}
"""Status of a share group: label, tone, explanation."""

BLOCKS = {
    "no_leader": gettext_lazy("The partition has no leader."),
    "under_min_isr": gettext_lazy(
        "The ISR is smaller than min.insync.replicas: transactions cannot end and read_committed consumers wait."
    ),
    "open_transaction": gettext_lazy("An open transaction: read_committed consumers wait for its end."),
}
