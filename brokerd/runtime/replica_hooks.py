"""Connects the replicas of a broker to the components that are built after them. Does not contain decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokerd.cluster.model import Now, TopicPartition
from brokerd.membership.identity import BrokerIdentity
from brokerd.membership.membership import Membership
from brokerd.replication.fetcher_manager import FetcherManager
from brokerd.replication.history_reads import HistoryReads
from brokerd.replication.leadership_confirmation import LeadershipConfirmation
from brokerd.replication.replica import Replica
from brokerd.runtime.coordinators import Coordinators
from brokerd.runtime.front_delivery import FrontDelivery
from brokerd.runtime.remote_logs import RemoteLogs
from brokerd.runtime.routing import Routing


class ReplicaComponents(Protocol):
    """The components of a broker that its replicas use."""

    fetcher_manager: FetcherManager
    coordinators: Coordinators
    front_delivery: FrontDelivery
    routing: Routing
    history_reads: HistoryReads
    remote_logs: RemoteLogs
    membership: Membership
    leadership_confirmation: LeadershipConfirmation
    identity: BrokerIdentity

    def log_directory_failed(self) -> None: ...


class BrokerReplicaHooks:
    """`ReplicaHooks` of a broker. Each call looks up the component, because components are built after the replicas."""

    def __init__(self, broker: ReplicaComponents) -> None:
        self._broker = broker

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        self._broker.fetcher_manager.follow(tp, leader, leader_epoch)

    def unfollow(self, tp: TopicPartition) -> None:
        self._broker.fetcher_manager.unfollow(tp)

    def resume(self, tp: TopicPartition) -> None:
        self._broker.fetcher_manager.resume(tp)

    def on_election(self, topic: str, partition: int, epoch: int, now: Now) -> None:
        self._broker.remote_logs.on_election(topic, partition)
        self._broker.coordinators.on_election(topic, partition, epoch, now)
        self._broker.front_delivery.on_election(topic, partition, epoch)
        self._broker.routing.on_election(topic, partition, epoch)

    def on_resignation(self, topic: str, partition: int, now: Now) -> None:
        self._broker.remote_logs.on_resignation(topic, partition)
        self._broker.coordinators.on_resignation(topic, partition, now)
        self._broker.front_delivery.on_resignation(topic, partition)
        self._broker.routing.on_resignation(topic, partition)

    def history_changed(self, replica: Replica) -> None:
        self._broker.history_reads.partition_changed(replica)

    def retain_history(self, replica: Replica) -> None:
        self._broker.history_reads.retain(replica)

    def image_is_current(self) -> bool:
        return self._broker.membership.head_read

    def confirm_leadership(self, done: Callable[[bool], None]) -> None:
        self._broker.leadership_confirmation.request(done)

    def replica_lost(self, description: str) -> None:
        self._broker.identity.record_loss(description)

    def io_error(self) -> None:
        self._broker.identity.tail_in_doubt()

    def directory_failed(self) -> None:
        self._broker.log_directory_failed()
