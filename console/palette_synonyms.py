"""Words that engineers type for a page of the console and that its label does not have, and pages for a feature. Values only.

Invariants: each word is separated by a space. A text is translated, so a page is found by the English words and by those of the reader's language.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_noop

SYNONYMS: Mapping[str, str] = {
    "overview": gettext_noop("home dashboard status problems"),
    "brokers": gettext_noop("nodes disk space full load rack cordon drain decommission start down dead kill"),
    "clients": gettext_noop("connections producers consumers readers writers client.id"),
    "zookeeper": gettext_noop("zk ensemble quorum controller"),
    "leader-elections": gettext_noop("preferred leader unclean offline imbalance"),
    "restarts": gettext_noop("rolling reboot upgrade maintenance"),
    "restart-new": gettext_noop("rolling reboot upgrade maintenance"),
    "topics": gettext_noop(
        "partitions replication under-replicated URP ISR offline retention compaction configs tiered remote cold"
    ),
    "undecided-half-messages": gettext_noop("two-phase prepared check commit rollback pending"),
    "routes": gettext_noop("binding exchange router filter headers fan-out copy bridge forward"),
    "schema-subjects": gettext_noop("schemas avro protobuf json compatibility subjects"),
    "connect": gettext_noop("source sink worker tasks debezium failed"),
    "documents": gettext_noop("gitops yaml terraform drift apply diff export"),
    "groups": gettext_noop("lag consumers offsets members behind rebalancing stuck"),
    "share-groups": gettext_noop("queue queues acknowledge redelivery"),
    "offset-resets": gettext_noop("offsets rewind replay seek earliest latest undo"),
    "transactions": gettext_noop("exactly-once transactional.id abort producers fenced"),
    "hanging-transactions": gettext_noop("stuck open abort last stable offset LSO blocked"),
    "moves": gettext_noop("migration throttle copy replicas progress pause resume cancel"),
    "move-new": gettext_noop("reassign migration replication factor decommission replicas"),
    "rebalance": gettext_noop("skew imbalance even hot cruise control"),
    "proposals": gettext_noop("review four eyes pending"),
    "messages": gettext_noop("records browse search key value consume read tail payload"),
    "acls": gettext_noop("authorization access rights authorizer deny allow"),
    "users": gettext_noop("scram password credentials login sasl accounts"),
    "permissions": gettext_noop("authorization denied access rights acl"),
    "quotas": gettext_noop("limit throttle rate bandwidth"),
    "masking": gettext_noop("mask redact pii privacy secret"),
    "role-bindings": gettext_noop("rbac roles rights operators viewers"),
    "tokens": gettext_noop("rest key bearer credentials"),
    "pipeline": gettext_noop("backup restore export s3"),
    "spark-jobs": gettext_noop("batch streaming ingest schedule runs"),
    "lake": gettext_noop("iceberg tables warehouse parquet"),
    "lake-query": gettext_noop("sql iceberg select"),
    "alerts": gettext_noop("incidents problems firing pager"),
    "alert-thresholds": gettext_noop("rules limits alerting"),
    "silences": gettext_noop("mute snooze suppress maintenance"),
    "notifications": gettext_noop("slack webhook email pagerduty channels"),
    "top": gettext_noop("largest biggest busiest hot growth noisy traffic"),
    "health": gettext_noop("score checks problems"),
    "anomalies": gettext_noop("unusual spike outlier baseline"),
    "healing": gettext_noop("automatic repair heal"),
    "time-travel": gettext_noop("history past before yesterday"),
    "audit": gettext_noop("changes changed who history actions"),
    "saved-views": gettext_noop("bookmarks filters"),
    "api-reference": gettext_noop("rest openapi curl documentation"),
}
"""{URL name: words}"""

FEATURES: tuple[tuple[str, str, Mapping[str, str], str], ...] = (
    (
        gettext_noop("Front topics of delayed messages"),
        "topics",
        {"q": ".delay"},
        gettext_noop("delayed delay scheduled timer timed later deliver"),
    ),
    (
        gettext_noop("Front topics of half messages"),
        "topics",
        {"q": ".half"},
        gettext_noop("two-phase prepared transactional messages"),
    ),
    (
        gettext_noop("Dead letter topics"),
        "topics",
        {"q": ".dead"},
        gettext_noop("letters dlq poison failed redrive resend"),
    ),
    (gettext_noop("Retry topics"), "topics", {"q": ".retry"}, gettext_noop("retries redelivery backoff")),
    (
        gettext_noop("Topics with problems"),
        "topics",
        {"state": "problems"},
        gettext_noop("under-replicated URP ISR offline min.insync.replicas"),
    ),
    (
        gettext_noop("Topics whose state drifts from the declared state"),
        "topics",
        {"state": "drift"},
        gettext_noop("out of sync"),
    ),
)
"""(label, URL name, query, words)"""
