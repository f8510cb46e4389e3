"""The page about an alert of each kind: the list or the object that the alert is about."""

from __future__ import annotations

from console.texts import gettext_lazy

ALERT_PAGES: dict[str, tuple[str, str, str]] = {
    "monitor_silent": ("zookeeper", "", gettext_lazy("state of ZooKeeper")),
    "partitions_offline": ("topics", "?state=problems&internal=1", gettext_lazy("topics with problems")),
    "partitions_under_min_isr": ("topics", "?state=problems&internal=1", gettext_lazy("topics with problems")),
    "partitions_under_replicated": ("topics", "?state=problems&internal=1", gettext_lazy("topics with problems")),
    "unclean_election": ("topic", "", gettext_lazy("topic {}")),
    "drift": ("topics", "?state=drift", gettext_lazy("topics with drift")),
    "document_drift": ("documents", "", gettext_lazy("cluster documents")),
    "copies_damaged": ("moves", "?tab=damage", gettext_lazy("damaged replicas")),
    "changes_unknown": ("audit", "?outcome=unknown", gettext_lazy("unknown outcomes")),
    "group_data_lost": ("group", "?sort=-lag_records", gettext_lazy("group")),
    "group_retention": ("group", "?sort=-lag_records", gettext_lazy("group")),
    "group_falling_behind": ("group", "?sort=-lag_records", gettext_lazy("group")),
    "group_stopped": ("group", "?sort=-lag_records", gettext_lazy("group")),
    "group_stalled": ("group", "?sort=-lag_records", gettext_lazy("group")),
    "share_group_stopped": ("share-group", "", gettext_lazy("share group {}")),
    "broker_down": ("broker", "", gettext_lazy("broker {}")),
    "broker_silent": ("broker", "", gettext_lazy("broker {}")),
    "disk_failed": ("broker", "", gettext_lazy("broker {}")),
    "disk_low": ("broker", "?sort=-size_bytes#list", gettext_lazy("largest replicas of broker {}")),
    "disk_filling": ("broker", "?sort=-size_bytes#list", gettext_lazy("largest replicas of broker {}")),
    "disk_slow": ("log-directories", "", gettext_lazy("log directories of broker {}")),
    "transaction_hanging": ("hanging-transactions", "?all=1", gettext_lazy("hanging transactions")),
    "half_undecided": ("half-messages", "", gettext_lazy("half messages of {}")),
    "half_expired": ("half-messages", "", gettext_lazy("half messages of {}")),
    "delayed_overdue": ("delayed-messages", "", gettext_lazy("delayed messages of {}")),
    "dead_letters_growing": ("dead-letters", "", gettext_lazy("dead letters of {}")),
    "dead_letters_missing": ("share-groups", "", gettext_lazy("share groups")),
    "connector_failed": ("connect", "?state=failed", gettext_lazy("failed connectors")),
    "connect_silent": ("connect", "", gettext_lazy("Connect clusters")),
    "client_refused": ("clients", "#refused", gettext_lazy("rejected requests")),
    "spark_worker_silent": ("spark-jobs", "", gettext_lazy("Spark jobs")),
    "move_failed": ("move", "", gettext_lazy("move {}")),
    "move_stuck": ("move", "", gettext_lazy("move {}")),
    "move_will_not_finish": ("move", "", gettext_lazy("move {}")),
    "archive_failed": ("job", "", gettext_lazy("job {}")),
}
PAGES_OF_SUBJECT = (
    "broker",
    "log-directories",
    "move",
    "job",
    "half-messages",
    "delayed-messages",
    "dead-letters",
    "share-group",
    "topic",
)
"""Pages about the subject of the alert, whose name is in the label."""
