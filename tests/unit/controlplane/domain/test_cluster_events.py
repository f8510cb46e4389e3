"""Events of the cluster as differences of observed states."""

from __future__ import annotations

from controlplane.domain.cluster_events import (
    BrokerLife,
    ClusterEventKind,
    LeaderChange,
    broker_events,
    controller_events,
    leader_events,
    unclean_start_event,
    zookeeper_events,
)

UP, DOWN, UP_AGAIN = BrokerLife(True, "a"), BrokerLife(False, "a"), BrokerLife(True, "b")


def test_a_start_after_an_unclean_shutdown_is_an_event_of_the_broker() -> None:
    event = unclean_start_event(2)
    assert (event.kind, event.subject) == (ClusterEventKind.BROKER_UNCLEAN_START, "2")
    assert event.text.startswith("Broker 2 started after an unclean shutdown")


def test_a_broker_that_ends_starts_or_restarts_is_an_event() -> None:
    assert [e.text for e in broker_events({1: UP, 2: UP}, {1: UP, 2: DOWN})] == [
        "Broker 2 went down: it was stopped, crashed or lost ZooKeeper."
    ]
    assert [e.text for e in broker_events({1: DOWN}, {1: UP_AGAIN})] == ["Broker 1 registered again."]
    assert [e.text for e in broker_events({1: UP}, {1: UP_AGAIN, 2: UP})] == [
        "Broker 1 restarted.",
        "Broker 2 registered.",
    ]


def test_the_first_observation_is_no_event() -> None:
    assert broker_events({}, {1: UP, 2: DOWN}) == []
    assert controller_events(None, (1, 7)) == []
    assert zookeeper_events(None, False) == []


def test_an_unchanged_or_deregistered_broker_is_no_event() -> None:
    assert broker_events({1: UP, 2: DOWN}, {1: UP, 2: BrokerLife(False, "c")}) == []


def test_all_leader_changes_of_one_observation_are_one_event() -> None:
    changes = [LeaderChange(f"orders-{i}", 2, 1 if i < 4 else None) for i in range(5)]
    (event,) = leader_events(reversed(changes))
    assert event.kind is ClusterEventKind.LEADERS_CHANGED
    assert event.text == (
        "Leader election for 5 partitions (orders-0, orders-1, orders-2 and 2 more). "
        "broker 2 → broker 1: 4, broker 2 → no leader: 1."
    )
    assert leader_events([]) == []


def test_a_new_controller_and_its_loss_are_events() -> None:
    assert [e.kind for e in controller_events((1, 7), (2, 8))] == [ClusterEventKind.CONTROLLER_ELECTED]
    assert [(e.kind, e.subject) for e in controller_events((1, 7), (None, 7))] == [
        (ClusterEventKind.CONTROLLER_LOST, "1")
    ]
    assert controller_events((None, 7), (None, 8)) == controller_events((1, 7), (1, 7)) == []


def test_a_lost_and_a_restored_zookeeper_are_events() -> None:
    assert [e.kind for e in zookeeper_events(True, False)] == [ClusterEventKind.ZOOKEEPER_LOST]
    assert [e.kind for e in zookeeper_events(False, True)] == [ClusterEventKind.ZOOKEEPER_BACK]
    assert zookeeper_events(True, True) == []
