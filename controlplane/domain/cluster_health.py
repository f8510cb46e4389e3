"""Health status of the cluster: the codes of its reasons, and their sentences. Pure.

A text is English and a key of the catalogues. Does not contain: which reason applies (`controlplane.selectors.overview`), titles of alerts (`alert`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from weir_common.phrases import Phrase, Value


class HealthStatus(StrEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    AT_RISK = "at_risk"
    UNKNOWN = "unknown"


class HealthReason(StrEnum):
    """`ALERT`: the most severe open alert, whose title is the sentence. The others describe the current state."""

    ALL_IN_SYNC = "all_in_sync"
    NEVER_READ = "never_read"
    NOT_CURRENT = "not_current"
    PARTITIONS_OFFLINE = "partitions_offline"
    PARTITIONS_UNDER_MIN_ISR = "partitions_under_min_isr"
    ZOOKEEPER_AWAY = "zookeeper_away"
    BROKERS_DOWN = "brokers_down"
    PARTITIONS_UNDER_REPLICATED = "partitions_under_replicated"
    DRIFT = "drift"
    ALERT = "alert"


REASON_TEXTS: dict[HealthReason, tuple[str, str]] = {
    HealthReason.ALL_IN_SYNC: ("Every partition has a leader, and all replicas are in sync.", ""),
    HealthReason.NEVER_READ: ("The cluster monitor has not read the cluster yet.", ""),
    HealthReason.NOT_CURRENT: ("The cluster monitor has read nothing from the cluster for {seconds} s.", ""),
    HealthReason.PARTITIONS_OFFLINE: ("{count} partition has no leader.", "{count} partitions have no leader."),
    HealthReason.PARTITIONS_UNDER_MIN_ISR: (
        "{count} partition has fewer in-sync replicas than min.insync.replicas.",
        "{count} partitions have fewer in-sync replicas than min.insync.replicas.",
    ),
    HealthReason.ZOOKEEPER_AWAY: ("ZooKeeper does not respond: no leader elections until it does.", ""),
    HealthReason.BROKERS_DOWN: (
        "{count} broker of {total} is down; {lacking}.",
        "{count} brokers of {total} are down; {lacking}.",
    ),
    HealthReason.PARTITIONS_UNDER_REPLICATED: (
        "{count} partition has a replica out of sync.",
        "{count} partitions have a replica out of sync.",
    ),
    HealthReason.DRIFT: (
        "{count} topic differs between database and cluster (drift).",
        "{count} topics differ between database and cluster (drift).",
    ),
}
"""The text of each reason except `ALERT`, and its plural by `count`; "" = none."""

LACKING = ("{count} partition lacks a replica", "{count} partitions lack a replica")
"""`lacking` of `BROKERS_DOWN`."""


def reason_phrase(reason: HealthReason, values: Mapping[str, int]) -> Phrase:
    """`values`: the numbers of the sentence by the names of its placeholders. Raises KeyError for `ALERT`, and when the sentence is made without one of them."""
    text, plural = REASON_TEXTS[reason]
    shown: dict[str, Value] = {name: f"{value:,}" for name, value in values.items()}
    if "lacking" in values:
        one, many = LACKING
        lacking = values["lacking"]
        shown["lacking"] = Phrase(one, {"count": f"{lacking:,}"}, many, lacking)
    return Phrase(text, shown, plural, values.get("count", 1))


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "")."""
    yield from REASON_TEXTS.values()
    yield LACKING
