"""Alerts: the closed list of kinds with their texts and advice."""

from __future__ import annotations

from controlplane.domain.alert import BRIEFS, alerts, brief
from controlplane.domain.alert_types import (
    AlertFacts,
    AlertKind,
    BrokerFacts,
    DiskForecastFacts,
    DocumentFacts,
    GroupFacts,
    MoveFacts,
    UncleanElectionFacts,
)
from controlplane.domain.lag import LagStatus
from controlplane.domain.move_states import MoveState

ILL = AlertFacts(
    zookeeper=True,
    controller=None,
    brokers=(
        BrokerFacts(1, False, None, 40),
        BrokerFacts(2, True, False, 40, 1000, 90, ("/data/b",)),
        BrokerFacts(3, True, True, 40, 1000, 20),
        BrokerFacts(4, False, None, 0),
        BrokerFacts(5, True, True, 40, dirs_slow=("/data/a", "/data/b"), dir_probe_ms={"/data/a": 2_140, "/data/c": 3}),
        BrokerFacts(6, True, True, 40, dirs_failed=("/data/a", "/data/b"), dirs_hung=("/data/b",)),
    ),
    offline=(1, ("orders-1",)),
    under_min_isr=(5, ("topic a", "topic b")),
    unclean_elections=(UncleanElectionFacts("clicks", (2, ("clicks-0", "clicks-3"))),),
    damaged=(1, ("orders-2 on broker 3",)),
    drift=2,
    disk_forecasts=(
        DiskForecastFacts(6, 4.5 * 86_400, 3 * 86_400, None, 5e11, 1e12),
        DiskForecastFacts(5, 30 * 3600, 20 * 3600, 2.1 * 86_400, 9e11, 1e12, 80, 40, 82.5),
    ),
    groups=(
        GroupFacts("a", LagStatus.STOPPED, "orders-1", 1234, 90_000),
        GroupFacts("d", LagStatus.DATA_LOST, "orders-2", 77, 1000, lost_records=12_345),
        GroupFacts(
            "billing",
            LagStatus.FALLING_BEHIND,
            "flights-3",
            1_860_000,
            1_500_000,
            False,
            1204.0,
            2008.0,
            0,
            "flights-5",
            667.0,
            "retention.bytes",
        ),
        GroupFacts("s", LagStatus.STALLED, "orders-1", 40, 90_000, True),
    ),
    moves=(MoveFacts(7, MoveState.RUNNING, 2, 5_000_000), MoveFacts(8, MoveState.FAILED, 1)),
    documents=(DocumentFacts("payments", 4, (2, ("topic orders",)), "bob"),),
    changes_unknown=1,
    archives=((3, "records were gone"),),
)


def test_each_alert_has_a_remedy_and_the_most_severe_is_first() -> None:
    found = alerts(ILL)
    assert [(a.kind, a.subject) for a in found] == [
        ("partitions_offline", ""),
        ("partitions_under_min_isr", ""),
        ("unclean_election", "clicks"),
        ("no_controller", ""),
        ("disk_failed", "2"),
        ("disk_failed", "6"),
        ("disk_low", "3"),
        ("disk_filling", "5"),
        ("group_data_lost", "d"),
        ("group_retention", "billing"),
        ("broker_down", "1"),
        ("broker_silent", "2"),
        ("disk_low", "2"),
        ("disk_filling", "6"),
        ("disk_slow", "5"),
        ("copies_damaged", ""),
        ("move_failed", "8"),
        ("move_stuck", "7"),
        ("move_will_not_finish", "7"),
        ("group_falling_behind", "billing"),
        ("group_stopped", "a"),
        ("group_stalled", "s"),
        ("archive_failed", "3"),
        ("drift", ""),
        ("document_drift", "payments"),
        ("changes_unknown", ""),
    ]
    assert all(a.text.endswith(".") or a.kind == "archive_failed" for a in found) and all(a.do for a in found)
    said = {(a.kind, a.subject): a.text for a in found}
    assert said["partitions_offline", ""].startswith("1 partition (orders-1) has no leader")
    assert said["unclean_election", "clicks"] == (
        "2 partitions (clicks-0, clicks-3) had an automatic unclean leader election: acknowledged records may be lost."
    )
    assert said["document_drift", "payments"] == (
        "2 resources (topic orders and 1 more) differ from the document of payments (plan 4). Last changed by bob."
    )
    assert said["disk_slow", "5"] == (
        "Broker 5 has 2 slow log directories: /data/a (a small write takes 2.1 s), /data/b."
    )
    assert said["disk_filling", "5"] == (
        "The disk of broker 5 is forecast to be full in about 30 h (80 % interval: 20 h to 2 d): 900 GB of 1.0 TB are used. "
        "33 of 40 earlier disk forecasts were right."
    )
    assert said["disk_filling", "6"].endswith(
        "in about 5 d (80 % interval: 3 d or later): 500 GB of 1.0 TB are used. No earlier forecast of a disk has an outcome yet."
    )
    assert said["disk_failed", "6"] == (
        "Broker 6 has 2 failed log directories: /data/a, /data/b (the disk does not respond)."
    )
    assert (
        said["group_stopped", "a"]
        == "Group a has stopped: no members and no commits; lag 1,200 records (oldest unread: 2 min)."
    )
    assert said["group_data_lost", "d"].startswith(
        "Group d lost data: retention deleted 12,000 records before they were consumed"
    )
    assert said["group_falling_behind", "billing"] == (
        "Group billing is falling behind: it reads 1,200 records/s, producers write 2,000/s; lag 1,900,000 records (oldest unread: 25 min)."
    )
    assert said["group_retention", "billing"] == (
        "In 11 min, retention (retention.bytes) will delete records of flights-5 that group billing has not consumed."
    )
    assert said["group_stalled", "s"] == (
        "Group s is stalled: the committed offset of orders-1 does not change; lag 40 records (oldest unread: more than 1 min)."
    )
    do = {(a.kind, a.subject): a.do for a in found}
    assert do["group_retention", "billing"].startswith("Raise retention.bytes of the topic")
    assert "needs 2,530 records/s to catch up within an hour" in do["group_falling_behind", "billing"]


def test_every_kind_of_alert_has_a_short_text() -> None:
    assert set(BRIEFS) == set(AlertKind)
    assert max(len(brief(name, "7", "")) for name in BRIEFS) < 60
    assert brief("group_stopped", "", "25 groups have stopped.") == "25 groups have stopped."
