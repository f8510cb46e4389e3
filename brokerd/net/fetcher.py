"""Moves bytes between a leader and this broker's followers: one `Replication` core and one `Peer` per leader broker.

Law: only the newest epoch's answers reach a log (the core drops the others). Called by `partitions` (follow, unfollow) and the
loop. Must not come in: when to truncate (replication), who leads (the metadata log).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.config import BrokerConfig
from brokerd.followers import Followers
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer
from brokerd.partitions import Partitions
from brokerd.replication import (
    Answered,
    AppendFetched,
    Begin,
    Diverged,
    Effect,
    Failed,
    OutOfRange,
    PartitionAnswer,
    Ready,
    Replication,
    SendFetch,
    WakeAt,
)
from brokerd.throttles import LEAST_BYTES, Bucket, Throttles
from brokerd.wire import framing
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import FetchRequest, FetchResponse

log = logging.getLogger(__name__)

FETCH_VERSION = 15
"""Fetch v15 names topics by id and carries the replica's incarnation (KIP-903)."""


class Source:
    """One leader broker and what is followed there."""

    def __init__(self, replication: Replication) -> None:
        self.replication = replication
        self.peer: Peer | None = None
        self.address: tuple[str, int] | None = None
        self.scheduled = False


class Fetchers:
    """All of this broker's followers. `address_of(broker_id)` is asked at each connection: brokers come back elsewhere."""

    def __init__(
        self,
        loop: Loop,
        config: BrokerConfig,
        partitions: Partitions,
        address_of: Callable[[int], tuple[str, int] | None],
        connect: Callable[..., Peer],
        throttles: Throttles,
    ) -> None:
        self.loop, self.config, self.partitions, self._address_of = loop, config, partitions, address_of
        self._connect, self._throttles = connect, throttles
        self._followers = Followers(partitions)
        self._sources: dict[int, Source] = {}
        self._where: dict[TopicPartition, int] = {}

    def follow(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        if self._where.get(tp, leader) != leader:
            self.unfollow(tp)
        self._where[tp] = leader
        source = self._sources.get(leader)
        if source is None:
            replication = Replication(self._followers.position, self.config["replica.fetch.backoff.ms"])
            source = self._sources[leader] = Source(replication)
        source.replication.follow(tp, leader_epoch)
        self._soon(leader, source)

    def unfollow(self, tp: TopicPartition) -> None:
        leader = self._where.pop(tp, None)
        if leader is not None:
            self._sources[leader].replication.unfollow(tp)

    def resume(self, tp: TopicPartition) -> None:
        leader = self._where.get(tp)
        if leader is not None:
            self._sources[leader].replication.look(tp)
            self._soon(leader, self._sources[leader])

    def kick(self) -> None:
        """Endpoints may have changed (a broker came back): try again now."""
        for leader, source in self._sources.items():
            self._soon(leader, source)

    def throttles_changed(self) -> None:
        for source in self._sources.values():
            source.replication.release()

    def _bucket(self, tp: TopicPartition) -> Bucket | None:
        """What a fetch of this partition draws from: none while this broker is in its ISR, where acknowledgements wait for it."""
        bucket = self._throttles.following(tp) if self._throttles.active else None
        state = self.partitions.image.partition(tp) if bucket is not None else None
        return None if state is None or self.partitions.broker_id in state.isr_ids else bucket

    def _soon(self, leader: int, source: Source, at_mono_ms: int | None = None) -> None:
        # One turn later: many partitions are followed at once when a leader moves.
        if source.scheduled and at_mono_ms is None:
            return
        if at_mono_ms is None:
            source.scheduled = True
            self.loop.call_later(0, lambda now: self._ready(leader, source))
        else:
            self.loop.call_at(at_mono_ms, lambda now: self._ready(leader, source))

    def _ready(self, leader: int, source: Source) -> None:
        source.scheduled = False
        self._run(leader, source, source.replication.handle(Ready(), self.loop.now))

    def _run(self, leader: int, source: Source, effects: list[Effect]) -> None:
        now = self.loop.now
        for effect in effects:
            match effect:
                case SendFetch():
                    self._send(leader, source, effect)
                case AppendFetched():
                    if not self._followers.append_fetched(
                        effect.tp, effect.records, effect.high_watermark, effect.log_start, now
                    ):
                        source.replication.refused(effect.tp, now)
                    elif len(effect.records) and (bucket := self._bucket(effect.tp)) is not None:
                        bucket.spend(len(effect.records), now.mono_ms)
                        if (ready := bucket.ready_ms(now.mono_ms)) > now.mono_ms:
                            source.replication.hold(effect.tp, ready)
                case Begin():
                    if not self._followers.begin(effect.tp, effect.seed, effect.high_watermark, now):
                        source.replication.refused(effect.tp, now)
                case Diverged():
                    self._followers.diverged(effect.tp, effect.epoch, effect.end_offset, now)
                case OutOfRange():
                    self._followers.out_of_range(effect.tp, effect.leader_log_start, now)
                case WakeAt():
                    self._soon(leader, source, effect.mono_ms)

    def _send(self, leader: int, source: Source, fetch: SendFetch) -> None:
        address = self._address_of(leader)
        # Not before its seat was read: what an earlier life lost is settled then, and until it is settled this life must not enter an ISR.
        incarnation = self.partitions.seat
        if address is None or incarnation is None:
            self._run(leader, source, source.replication.handle(Failed(), self.loop.now))
            return
        if source.peer is None or source.address != address:
            if source.peer is not None:
                source.peer.close()
            source.address = address
            source.peer = self._connect(
                *address,
                timeout_ms=self.config["replica.socket.timeout.ms"],
                frame_bytes_max=self.config["replica.fetch.response.max.bytes"] + self.config["socket.request.max.bytes"],
            )  # fmt: skip
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
                    unseeded=f.position.unseeded,
                )
            )
        forgotten: dict[UUID, list[int]] = {}
        for tp in fetch.forgotten:
            forgotten.setdefault(tp.topic_id, []).append(tp.partition)
        body = FetchRequest(
            replica_state=FetchRequest.ReplicaState(replica_id=self.partitions.broker_id, replica_epoch=incarnation),
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
        request = framing.encode_request(ApiKey.FETCH, FETCH_VERSION, 0, f"broker-{self.partitions.broker_id}", body)
        source.peer.ask(request, lambda frame: self._answered(leader, source, frame))

    def _answered(self, leader: int, source: Source, frame: memoryview | None) -> None:
        event: Answered | Failed = Failed()
        if frame is not None:
            try:
                _, body = framing.decode_response(ApiKey.FETCH, FETCH_VERSION, frame)
                event = Answered(tuple(_partition_answers(body)), body.error_code, body.session_id)
            except framing.WireError as e:
                log.warning("broker %d answered a fetch with nonsense: %s", leader, e)
                assert source.peer is not None
                source.peer.close()
        now = self.loop.now
        self._run(leader, source, source.replication.handle(event, now))
        if isinstance(event, Answered):
            self._run(leader, source, source.replication.handle(Ready(), now))

    def close(self) -> None:
        for source in self._sources.values():
            if source.peer is not None:
                source.peer.close()


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
                    p.seed,
                )
            )
    return answers
