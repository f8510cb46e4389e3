"""Fetches of this broker's follower replicas: up to two connections per leader broker, each with a `FetchClient` core and a `Peer`.

Replicas that catch up use a separate connection (decision 103). Their responses are long, and may wait for the leader's disk. Producers with acks=all wait
for the other replicas.
Invariant: a partition changes its connection while a response is handled, when no fetch of the old connection is in flight. Otherwise the leader could receive
the older fetch last.
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
from brokerd.replication.catch_up_pacing import CatchUpProgress
from brokerd.replication.fetch_client import (
    AppendFetched,
    Begin,
    Diverged,
    Effect,
    Failed,
    FetchClient,
    FetchResponseReceived,
    MovedToTier,
    OutOfRange,
    PartitionResponse,
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


BEHIND_RESPONSES_MAX = 32
"""Number of consecutive responses below the high watermark after which a replica that is not in the ISR catches up through the other connection. A response
has at most `replica.fetch.max.bytes` of a partition."""


class LeaderFetcher:
    """One connection to a leader broker and the partitions that are fetched through it. `catching_up`: it is for replicas that are behind."""

    def __init__(self, leader: int, client: FetchClient, *, catching_up: bool) -> None:
        self.leader, self.client, self.catching_up = leader, client, catching_up
        self.behind: dict[TopicPartition, int] = {}
        """{partition: number of consecutive responses that ended below the high watermark}."""
        self.peer: Peer | None = None
        self.address: tuple[str, int] | None = None
        self.scheduled = False
        self.paused_until_ms = 0
        """No fetch is sent before this monotonic time, because producers need the CPU (`catch_up_pacing`)."""
        self.progress = CatchUpProgress()


class FetcherManager:
    """`address_of(broker_id)` is called for each connection, because a broker may return with another address. `produced`: number of requests
    of producers that this broker has answered until now."""

    def __init__(
        self,
        loop: Loop,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        address_of: Callable[[int], tuple[str, int] | None],
        connect: Callable[..., Peer],
        throttles: Throttles,
        produced: Callable[[], int],
    ) -> None:
        self.loop, self.config, self.replica_manager, self._address_of = loop, config, replica_manager, address_of
        self._connect, self._throttles, self._produced = connect, throttles, produced
        self._live_responses = 0
        """Number of responses with new records: producers may wait for this broker."""
        self._followers = FollowerLogs(replica_manager)
        self._fetchers: dict[tuple[int, bool], LeaderFetcher] = {}
        """{(leader, whether it is for replicas that catch up): fetcher}."""
        self._fetcher_of: dict[TopicPartition, LeaderFetcher] = {}

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        fetcher = self._fetcher_of.get(tp)
        if fetcher is None or fetcher.leader != leader:
            self.unfollow(tp)
            fetcher = self._fetcher_of[tp] = self._choose(tp, leader)
        fetcher.client.follow(tp, leader_epoch)
        self._schedule(fetcher)

    def unfollow(self, tp: TopicPartition) -> None:
        fetcher = self._fetcher_of.pop(tp, None)
        if fetcher is not None:
            fetcher.client.unfollow(tp)
            fetcher.behind.pop(tp, None)
            fetcher.progress.forget(tp)
            if not fetcher.client.followed:
                self._schedule(fetcher)  # its session ends

    def resume(self, tp: TopicPartition) -> None:
        fetcher = self._fetcher_of.get(tp)
        if fetcher is not None:
            fetcher.client.mark_dirty(tp)
            self._schedule(fetcher)

    def retry_all(self) -> None:
        """Retry all failed connections now, because endpoints may have changed (for example, a broker has restarted)."""
        for fetcher in self._fetchers.values():
            self._schedule(fetcher)

    def throttles_changed(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.client.lift_throttles()

    def _choose(self, tp: TopicPartition, leader: int) -> LeaderFetcher:
        """The connection for a partition that was not followed until now."""
        for catching_up in (False, True):
            fetcher = self._fetchers.get((leader, catching_up))
            if fetcher is not None and tp in fetcher.client.sent_positions:
                return fetcher  # a fetch of the partition may be in flight
        return self._fetcher(leader, catching_up=self._is_out_of_isr(tp))

    def _fetcher(self, leader: int, *, catching_up: bool) -> LeaderFetcher:
        fetcher = self._fetchers.get((leader, catching_up))
        if fetcher is None:
            client = FetchClient(self._followers.position, self.config["replica.fetch.backoff.ms"])
            fetcher = LeaderFetcher(leader, client, catching_up=catching_up)
            self._fetchers[leader, catching_up] = fetcher
        return fetcher

    def _is_out_of_isr(self, tp: TopicPartition) -> bool:
        state = self.replica_manager.image.partition(tp)
        return state is not None and self.replica_manager.broker_id not in state.isr_ids

    def _choose_again(self, fetcher: LeaderFetcher, tp: TopicPartition, high_watermark: int) -> None:
        """Change the connection of a replica that has caught up or that stays behind. Called after a response of `fetcher` was appended."""
        replica = self.replica_manager.hosted.get(tp)
        if replica is None or self._fetcher_of.get(tp) is not fetcher:
            return
        if fetcher.catching_up:
            fetcher.progress.on_appended(tp, replica.log.end_offset, high_watermark, self.loop.now.mono_ms)
        if replica.log.end_offset >= high_watermark:
            if fetcher.behind:
                fetcher.behind.pop(tp, None)
            if fetcher.catching_up:
                self._change_fetcher(tp, fetcher)
        elif not fetcher.catching_up:
            fetcher.behind[tp] = fetcher.behind.get(tp, 0) + 1
            if fetcher.behind[tp] > BEHIND_RESPONSES_MAX and self._is_out_of_isr(tp):
                self._change_fetcher(tp, fetcher)

    def _change_fetcher(self, tp: TopicPartition, old: LeaderFetcher) -> None:
        leader_epoch = old.client.followed[tp].leader_epoch
        self.unfollow(tp)
        new = self._fetcher_of[tp] = self._fetcher(old.leader, catching_up=not old.catching_up)
        new.client.follow(tp, leader_epoch)
        self._schedule(new)

    def _bucket(self, tp: TopicPartition) -> Bucket | None:
        """The throttle bucket of this partition's fetches. None while this broker is in the ISR, because then acknowledgements wait for this replica."""
        bucket = self._throttles.follower_bucket(tp) if self._throttles.active else None
        state = self.replica_manager.image.partition(tp) if bucket is not None else None
        return None if state is None or self.replica_manager.broker_id in state.isr_ids else bucket

    def _schedule(self, fetcher: LeaderFetcher, at_mono_ms: int | None = None) -> None:
        # Send in the next iteration, because many partitions change their leader in the same iteration when a broker fails or moves its leaderships.
        if fetcher.scheduled and at_mono_ms is None:
            return
        if at_mono_ms is None:
            fetcher.scheduled = True
            self.loop.call_later(0, lambda now: self._ready(fetcher))
        else:
            self.loop.call_at(at_mono_ms, lambda now: self._ready(fetcher))

    def _ready(self, fetcher: LeaderFetcher) -> None:
        fetcher.scheduled = False
        if self.loop.now.mono_ms < fetcher.paused_until_ms:
            self._schedule(fetcher, fetcher.paused_until_ms)
            return
        self._run_effects(fetcher, fetcher.client.handle(Ready(), self.loop.now))

    def _run_effects(self, fetcher: LeaderFetcher, effects: list[Effect]) -> None:
        now = self.loop.now
        for effect in effects:
            match effect:
                case SendFetch():
                    self._send(fetcher, effect)
                case AppendFetched():
                    if not self._followers.append_fetched(
                        effect.tp, effect.records, effect.high_watermark, effect.log_start, now
                    ):
                        fetcher.client.append_rejected(effect.tp, now)
                        continue
                    if len(effect.records) and (bucket := self._bucket(effect.tp)) is not None:
                        bucket.spend(len(effect.records), now.mono_ms)
                        if (ready := bucket.ready_ms(now.mono_ms)) > now.mono_ms:
                            fetcher.client.throttle(effect.tp, ready)
                    self._choose_again(fetcher, effect.tp, effect.high_watermark)
                case Begin():
                    if not self._followers.begin(effect.tp, effect.snapshot, effect.high_watermark, now):
                        fetcher.client.append_rejected(effect.tp, now)
                case Diverged():
                    self._followers.truncate_to_divergence(effect.tp, effect.epoch, effect.end_offset, now)
                case MovedToTier():
                    self._followers.moved_to_tier(effect.tp, effect.leader_log_start)
                case OutOfRange():
                    self._followers.out_of_range(effect.tp, effect.leader_log_start, effect.snapshot, now)
                case WakeAt():
                    self._schedule(fetcher, effect.mono_ms)

    def _send(self, fetcher: LeaderFetcher, fetch: SendFetch) -> None:
        address = self._address_of(fetcher.leader)
        # Wait until the metadata log contains this broker's registration. The registration also records the losses of the previous run. Before that, this
        # broker must not join an ISR.
        broker_epoch = self.replica_manager.registered_epoch
        if address is None or broker_epoch is None:
            self._run_effects(fetcher, fetcher.client.handle(Failed(), self.loop.now))
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
        for fetched in fetch.partitions:
            bucket = self._bucket(fetched.tp)
            topics.setdefault(fetched.tp.topic_id, []).append(
                FetchRequest.FetchPartition(
                    partition=fetched.tp.partition,
                    current_leader_epoch=fetched.leader_epoch,
                    fetch_offset=fetched.position.fetch_offset,
                    last_fetched_epoch=fetched.position.last_epoch,
                    log_start_offset=fetched.position.log_start,
                    partition_max_bytes=bytes_max if bucket is None else min(bytes_max, max(LEAST_BYTES, bucket.rate)),
                    awaits_bootstrap=fetched.position.awaits_bootstrap,
                    remote_start=fetched.position.remote_start,
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
        fetcher.peer.send_request(request, lambda frame: self._on_response(fetcher, frame))

    def _on_response(self, fetcher: LeaderFetcher, frame: memoryview | None) -> None:
        event: FetchResponseReceived | Failed = Failed()
        pause_ms = 0
        if frame is not None:
            try:
                _, body = framing.decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
                event = FetchResponseReceived(tuple(_partition_responses(body)), body.error_code, body.session_id)
                pause_ms = body.throttle_time_ms
            except framing.WireError as e:
                log.warning("malformed fetch response, connection closed: leader=%d error=%s", fetcher.leader, e)
                assert fetcher.peer is not None
                fetcher.peer.close()
        now = self.loop.now
        self._run_effects(fetcher, fetcher.client.handle(event, now))
        if not isinstance(event, FetchResponseReceived):
            return
        fetched = [response.tp for response in event.responses if len(response.records)]
        if fetched and not fetcher.catching_up:
            self._live_responses += 1
        elif fetched and all(self._may_pause(fetcher, tp) for tp in fetched):
            served = self._produced() + self._live_responses
            pause_ms = self._throttles.follower_pacing.pause_ms(fetcher.leader, served, pause_ms)
            fetcher.paused_until_ms = now.mono_ms + pause_ms
        self._ready(fetcher)

    def _may_pause(self, fetcher: LeaderFetcher, tp: TopicPartition) -> bool:
        """Return whether nothing requires that this replica catches up as fast as it can."""
        replica = self.replica_manager.hosted.get(tp)
        return replica is None or not (replica.core.isr_size < replica.core.min_insync or fetcher.progress.is_slow(tp))

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            if fetcher.peer is not None:
                fetcher.peer.close()


def _partition_responses(body: FetchResponse) -> list[PartitionResponse]:
    responses = []
    for topic in body.responses:
        for partition in topic.partitions:
            parted = partition.diverging_epoch
            responses.append(
                PartitionResponse(
                    TopicPartition(topic.topic_id, partition.partition_index),
                    partition.error_code,
                    partition.high_watermark,
                    partition.log_start_offset,
                    partition.records if partition.records is not None else b"",
                    (parted.epoch, parted.end_offset) if parted is not None and parted.epoch >= 0 else None,
                    partition.bootstrap_snapshot,
                )
            )
    return responses
