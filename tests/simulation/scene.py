"""A small cluster with one topic of one partition for directed cases. The seed decides the delays between the steps."""

from __future__ import annotations

from typing import Any

from brokerd.cluster.model import PartitionState, TopicPartition
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import DeleteRecordsRequest, ProduceRequest
from brokerd.wire.records import Record
from tests.simulation.checkers import InvariantChecker, logs_agree, values
from tests.simulation.clients import Client
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.probes import NO_PROBES, ProbeAccuracy
from tests.simulation.world import MS, World

PATIENT = {"replica.lag.time.max.ms": "60000"}
"""Long enough for a follower to pause and stay in the ISR: these bugs need that window."""


class Scene:
    def __init__(
        self,
        seed: int,
        min_insync: int | None = 1,
        settings: dict[str, str] | None = None,
        brokers: int = 2,
        probes: ProbeAccuracy = NO_PROBES,
        replicas: int | None = None,
        racks: int = 0,
        controllers: int = 1,
        checker: type[InvariantChecker] = InvariantChecker,
        **configs: str,
    ) -> None:
        self.world = World(seed)
        self.cluster = Cluster(
            self.world,
            brokers=brokers,
            controllers=controllers,
            settings=PATIENT if settings is None else settings,
            probes=probes,
            racks=racks,
        )
        checker(self.cluster)
        if min_insync:
            configs["min_insync_replicas"] = str(min_insync)
        self.topic_id = self.cluster.want_topic("t", 1, replicas or brokers, **configs)
        self.cluster.run_until(self.cluster.is_settled, 30, "the beginning")
        self.client = Client(self.cluster, "client")

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic_id, 0)

    @property
    def state(self) -> PartitionState:
        state = self.cluster.image.partition(self.tp)
        assert state is not None
        return state

    def write(self, *texts: str, acks: int = -1, age_ms: int = 0) -> None:
        """One batch per text, each acknowledged before the next is sent."""
        for text in texts:
            assert self.send(self.state.leader, text, acks=acks, age_ms=age_ms) == 0, f"{text!r} was rejected"

    def send(
        self,
        broker_id: int,
        text: str,
        *,
        acks: int = -1,
        timeout_ms: int = 5000,
        producer: tuple[int, int] = (-1, -1),
        age_ms: int = 0,
        topic: str = "t",
    ) -> int:
        """The error code of this broker's response for partition 0. `producer` is (producer id, sequence), `age_ms` the age of the record's timestamp."""
        data = records.build(
            [Record(0, self.client.clock().wall_ms - age_ms, None, text.encode())],
            producer_id=producer[0],
            producer_epoch=min(producer[0], 0),
            base_sequence=producer[1],
        )
        part = ProduceRequest.PartitionProduceData(index=0, records=bytes(data))
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[part])]
        body = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)
        responses: list[Any] = []
        self.client.enter(lambda: self.client.send_request(broker_id, ApiKey.PRODUCE, 9, body, responses.append))
        self.cluster.run_until(lambda: bool(responses), 10, f"the response to {text!r}")
        assert responses[0] is not None, f"no response to {text!r}"
        return int(responses[0].responses[0].partition_responses[0].error_code)

    def delete_below(self, offset: int, *, timeout_ms: int = 8_000, broker_id: int | None = None) -> tuple[int, int]:
        """DeleteRecords at the leader, or at `broker_id`. (error code, low watermark) of the response.

        A follower reports a flushed log start with its next fetch, so two fetches of up to 500 ms may wait before the response."""
        r = DeleteRecordsRequest
        part = r.DeleteRecordsPartition(partition_index=0, offset=offset)
        body = r(topics=[r.DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=timeout_ms)
        responses: list[Any] = []
        target = self.state.leader if broker_id is None else broker_id
        self.client.enter(lambda: self.client.send_request(target, ApiKey.DELETE_RECORDS, 2, body, responses.append))
        self.cluster.run_until(lambda: bool(responses), 10, "the response to DeleteRecords")
        assert responses[0] is not None, "no response"
        response = responses[0].topics[0].partitions[0]
        return response.error_code, response.low_watermark

    def until_leads(self, broker_id: int) -> None:
        self.cluster.run_until(lambda: self.state.leader == broker_id, 20, f"broker {broker_id} to lead")
        self.pass_ms(300)

    def leads_now(self, node: BrokerNode) -> bool:
        """True if its current incarnation leads."""
        isr_member = node.broker.membership.broker_epoch
        return isr_member is not None and (self.state.leader, self.state.leader_broker_epoch) == (
            node.broker_id,
            isr_member,
        )

    def pass_ms(self, ms: int) -> None:
        self.world.run(self.world.now_us + ms * MS)

    def end(self) -> list[str]:
        """The log's values after all replicas are in sync: the same on all brokers."""
        self.cluster.run_until(self.cluster.is_settled, 60, "everything in step")
        node = self.cluster.brokers
        hosted = [node[b].broker.replica_manager.hosted[self.tp] for b in self.state.replicas]
        self.cluster.run_until(
            lambda: all(r.core.high_watermark == r.log.end_offset == hosted[0].log.end_offset for r in hosted),
            20,
            "equal ends",
        )
        logs_agree(self.cluster)
        return [v.decode() for _, v in values(self.cluster, self.state.leader, self.tp)]

    def cut(self, one: int, other: int) -> None:
        """Cut the connections between two brokers."""
        names = self.cluster.brokers[one].name, self.cluster.brokers[other].name
        self.cluster.network.cut |= {names, names[::-1]}

    def heal(self) -> None:
        self.cluster.network.cut.clear()

    def pair(self) -> tuple[Any, Any]:
        """(leader's node, follower's node)."""
        leader = self.state.leader
        return self.cluster.brokers[leader], self.cluster.brokers[3 - leader]
