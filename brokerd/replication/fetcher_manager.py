"""Fetches of this broker's follower replicas: one `FetchClient` core and one `Peer` per leader broker.

Does not contain: when to truncate (`follower_log`), which broker leads (the metadata log).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.config.broker import BrokerConfig
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.replication.fetch_client import (
    AppendFetched,
    Begin,
    Diverged,
    Effect,
    Failed,
    FetchAnswered,
    FetchClient,
    MovedToTier,
    OutOfRange,
    PartitionAnswer,
    Ready,
    SendFetch,
    WakeAt,
)
from brokerd.replication.follower_log import FollowerLogs
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.replication.throttles import LEAST_BYTES, Bucket, Throttles
from brokerd.wire import framing
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

FETCH_VERSION = 15
"""Fetch v15 names topics by id and has the replica's broker epoch (KIP-903)."""


class LeaderFetcher:
    """One leader broker and the partitions that are fetched from it."""

    def __init__(self, client: FetchClient) -> None:
        self.client = client
        self.peer: Peer | None = None
        self.address: tuple[str, int] | None = None
        self.scheduled = False


class FetcherManager:
    """`address_of(broker_id)` is called for each connection, because a broker may return with another address."""

    def __init__(
        self,
        loop: Loop,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        address_of: Callable[[int], tuple[str, int] | None],
        connect: Callable[..., Peer],
        throttles: Throttles,
    ) -> None:
        self.loop, self.config, self.replica_manager, self._address_of = loop, config, replica_manager, address_of
        self._connect, self._throttles = connect, throttles
        self._followers = FollowerLogs(replica_manager)
        self._leaders: dict[int, LeaderFetcher] = {}
        self._leader_of: dict[TopicPartition, int] = {}

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        if self._leader_of.get(tp, leader) != leader:
            self.unfollow(tp)
        self._leader_of[tp] = leader
        fetcher = self._leaders.get(leader)
        if fetcher is None:
            client = FetchClient(self._followers.position, self.config["replica.fetch.backoff.ms"])
            fetcher = self._leaders[leader] = LeaderFetcher(client)
        fetcher.client.follow(tp, leader_epoch)
        self._schedule(leader, fetcher)

    def unfollow(self, tp: TopicPartition) -> None:
        leader = self._leader_of.pop(tp, None)
        if leader is not None:
            self._leaders[leader].client.unfollow(tp)

    def resume(self, tp: TopicPartition) -> None:
        leader = self._leader_of.get(tp)
        if leader is not None:
            self._leaders[leader].client.mark_dirty(tp)
            self._schedule(leader, self._leaders[leader])

    def retry_all(self) -> None:
        """Retry all failed connections now, because endpoints may have changed (for example, a broker has restarted)."""
        for leader, fetcher in self._leaders.items():
            self._schedule(leader, fetcher)

    def throttles_changed(self) -> None:
        for fetcher in self._leaders.values():
            fetcher.client.lift_throttles()

    def _bucket(self, tp: TopicPartition) -> Bucket | None:
        """The throttle bucket of this partition's fetches. None while this broker is in the ISR, because then acknowledgements wait for this replica."""
        bucket = self._throttles.following(tp) if self._throttles.active else None
        state = self.replica_manager.image.partition(tp) if bucket is not None else None
        return None if state is None or self.replica_manager.broker_id in state.isr_ids else bucket

    def _schedule(self, leader: int, fetcher: LeaderFetcher, at_mono_ms: int | None = None) -> None:
        # Send in the next turn, because many partitions change their leader in the same turn when a broker fails or moves its leaderships.
        if fetcher.scheduled and at_mono_ms is None:
            return
        if at_mono_ms is None:
            fetcher.scheduled = True
            self.loop.call_later(0, lambda now: self._ready(leader, fetcher))
        else:
            self.loop.call_at(at_mono_ms, lambda now: self._ready(leader, fetcher))

    def _ready(self, leader: int, fetcher: LeaderFetcher) -> None:
        fetcher.scheduled = False
        self._run_effects(leader, fetcher, fetcher.client.handle(Ready(), self.loop.now))

    def _run_effects(self, leader: int, fetcher: LeaderFetcher, effects: list[Effect]) -> None:
        now = self.loop.now
        for effect in effects:
            match effect:
                case SendFetch():
                    self._send(leader, fetcher, effect)
                case AppendFetched():
                    if not self._followers.append_fetched(
                        effect.tp, effect.records, effect.high_watermark, effect.log_start, now
                    ):
                        fetcher.client.append_rejected(effect.tp, now)
                    elif len(effect.records) and (bucket := self._bucket(effect.tp)) is not None:
                        bucket.spend(len(effect.records), now.mono_ms)
                        if (ready := bucket.ready_ms(now.mono_ms)) > now.mono_ms:
                            fetcher.client.throttle(effect.tp, ready)
                case Begin():
                    if not self._followers.begin(effect.tp, effect.snapshot, effect.high_watermark, now):
                        fetcher.client.append_rejected(effect.tp, now)
                case Diverged():
                    self._followers.truncate_to_divergence(effect.tp, effect.epoch, effect.end_offset, now)
                case MovedToTier():
                    self._followers.moved_to_tier(effect.tp, effect.leader_log_start)
                case OutOfRange():
                    self._followers.out_of_range(effect.tp, effect.leader_log_start, now)
                case WakeAt():
                    self._schedule(leader, fetcher, effect.mono_ms)

    def _send(self, leader: int, fetcher: LeaderFetcher, fetch: SendFetch) -> None:
        address = self._address_of(leader)
        # Wait until the metadata log contains this broker's registration. The registration also records the losses of the previous run. Before that, this
        # broker must not join an ISR.
        broker_epoch = self.replica_manager.registered_epoch
        if address is None or broker_epoch is None:
            self._run_effects(leader, fetcher, fetcher.client.handle(Failed(), self.loop.now))
            return
        if fetcher.peer is None or fetcher.address != address:
            if fetcher.peer is not None:
                fetcher.peer.close()
            fetcher.address = address
            fetcher.peer = self._connect(
                *address,
                timeout_ms=self.config["replica.socket.timeout.ms"],
                frame_bytes_max=self.config["replica.fetch.response.max.bytes"]
                + self.config["socket.request.max.bytes"],
            )
        topics: dict[UUID, list[FetchRequest.FetchPartition]] = {}
        bytes_max = self.config["replica.fetch.max.bytes"]
        for f in fetch.partitions:
            bucket = self._bucket(f.tp)
            topics.setdefault(f.tp.topic_id, []).append(
                FetchRequest.FetchPartition(
                    partition=f.tp.partition,
                    current_leader_epoch=f.leader_epoch,
                    fetch_offset=f.position.fetch_offset,
                    last_fetched_epoch=f.position.last_epoch,
                    log_start_offset=f.position.log_start,
                    partition_max_bytes=bytes_max if bucket is None else min(bytes_max, max(LEAST_BYTES, bucket.rate)),
                    awaits_bootstrap=f.position.awaits_bootstrap,
                    remote_start=f.position.remote_start,
                )
            )
        forgotten: dict[UUID, list[int]] = {}
        for tp in fetch.forgotten:
            forgotten.setdefault(tp.topic_id, []).append(tp.partition)
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self.replica_manager.broker_id, replica_epoch=broker_epoch
            ),
            max_wait_ms=self.config["replica.fetch.wait.max.ms"] if fetch.wait else 0,
            min_bytes=1,
            max_bytes=self.config["replica.fetch.response.max.bytes"],
            session_id=fetch.session_id,
            session_epoch=fetch.session_epoch,
            topics=[FetchRequest.FetchTopic(topic_id=t, partitions=ps) for t, ps in topics.items()],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(topic_id=t, partitions=ps) for t, ps in forgotten.items()
            ],
        )
        request = framing.encode_request(
            ApiKey.FETCH, FETCH_VERSION, 0, f"broker-{self.replica_manager.broker_id}", body
        )
        fetcher.peer.send_request(request, lambda frame: self._on_response(leader, fetcher, frame))

    def _on_response(self, leader: int, fetcher: LeaderFetcher, frame: memoryview | None) -> None:
        event: FetchAnswered | Failed = Failed()
        if frame is not None:
            try:
                _, body = framing.decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
                event = FetchAnswered(tuple(_partition_answers(body)), body.error_code, body.session_id)
            except framing.WireError as e:
                log.warning("malformed fetch response, connection closed: leader=%d error=%s", leader, e)
                assert fetcher.peer is not None
                fetcher.peer.close()
        now = self.loop.now
        self._run_effects(leader, fetcher, fetcher.client.handle(event, now))
        if isinstance(event, FetchAnswered):
            self._run_effects(leader, fetcher, fetcher.client.handle(Ready(), now))

    def close(self) -> None:
        for fetcher in self._leaders.values():
            if fetcher.peer is not None:
                fetcher.peer.close()


def _partition_answers(body: FetchResponse) -> list[PartitionAnswer]:
    answers = []
    for topic in body.responses:
        for p in topic.partitions:
            parted = p.diverging_epoch
            answers.append(
                PartitionAnswer(
                    TopicPartition(topic.topic_id, p.partition_index),
                    p.error_code,
                    p.high_watermark,
                    p.log_start_offset,
                    p.records if p.records is not None else b"",
                    (parted.epoch, parted.end_offset) if parted is not None and parted.epoch >= 0 else None,
                    p.bootstrap_snapshot,
                )
            )
    return answers
