"""ApiVersions, Metadata and DescribeCluster: what there is and where.

Law: answered from the image alone; liveness is what the metadata log says, but of the broker that answers. Topics not yet ready are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from uuid import UUID

from brokerd.apis import features
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import RequestAnswered
from brokerd.cluster.model import (
    NO_INCARNATION,
    NO_LEADER,
    BrokerState,
    Endpoint,
    PartitionState,
    TopicState,
    topic_name_problem,
)
from brokerd.config import BrokerConfig
from brokerd.dispatch import Request
from brokerd.net.loop import Loop
from brokerd.wire import apis
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    ApiVersionsRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataResponse,
)

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What KIP-511 allows as a client's name and version; another is refused, and the client asks again in version 0."""
NO_ID = UUID(int=0)
BROKERS = 1
"""The endpoints that DescribeCluster is asked for (KIP-919); 2 are controllers."""
AUTHORIZED_OPERATIONS_UNKNOWN = -(2**31)
NEGATIVE_CACHE_MS = 2_000
"""A topic whose creation was refused is not asked for again sooner: a storm of clients asks once."""
NEGATIVE_CACHE_MAX = 10_000
AUTO_CREATIONS_PER_SECOND = 50
"""Topics this broker asks the controller for unbidden; whoever names more hears "no leader yet" and asks again, as for any new topic."""

Ask = Callable[[str, dict[str, object], int, Callable[[RequestAnswered | None], None]], None]


class MetadataApi:
    """`ask(kind, payload, timeout_ms, done)` forwards to the controller. `endpoints` are this broker's own."""

    def __init__(
        self, loop: Loop, config: BrokerConfig, endpoints: Sequence[Endpoint], image: Callable[[], Image], ask: Ask
    ) -> None:
        self._loop, self._config, self._image, self._ask = loop, config, image, ask
        first = endpoints[0]
        self._me = BrokerState(
            config.broker_id,
            NO_INCARNATION,
            "",
            first.host,
            first.port,
            config["broker.rack"],
            endpoints=tuple(endpoints),
        )
        self._asked: dict[str, int] = {}
        self._second = self._this_second = 0

    def api_versions(self, request: Request) -> None:
        body: ApiVersionsRequest = request.body
        version = request.header.api_version
        named = version < 3 or all(
            SOFTWARE_NAME.fullmatch(w) for w in (body.client_software_name, body.client_software_version)
        )
        answer = apis.api_versions_response(version, ErrorCode.NONE if named else ErrorCode.INVALID_REQUEST)
        if version >= 3:
            features.offer(answer, self._image(), self._config)
        request.reply(answer)

    def metadata(self, request: Request) -> None:
        body: MetadataRequest = request.body
        image, version = self._image(), request.header.api_version
        wanted = body.topics
        listener = request.listener
        if wanted is None or (version == 0 and not wanted):
            topics = [self._topic(image, t, version, listener) for t in image.topics.values() if t.ready]
        else:
            allow = body.allow_auto_topic_creation if version >= 4 else True
            once = {(w.topic_id, w.name): w for w in wanted}  # an answer may be a thousand times its question
            topics = [self._wanted(image, w, version, allow, request) for w in once.values()]
        request.reply(
            MetadataResponse(
                brokers=[
                    MetadataResponse.MetadataResponseBroker(node_id=b.broker_id, host=host, port=port, rack=b.rack)
                    for b, host, port in self._reachable(image, listener)
                ],
                cluster_id=image.cluster_id or None,
                # Any live broker forwards admin requests to the controller; clients need one they can reach.
                controller_id=self._config.broker_id,
                topics=topics,
                cluster_authorized_operations=AUTHORIZED_OPERATIONS_UNKNOWN,
            )
        )

    def _wanted(
        self,
        image: Image,
        wanted: MetadataRequest.MetadataRequestTopic,
        version: int,
        allow_create: bool,
        request: Request,
    ) -> MetadataResponse.MetadataResponseTopic:
        if version >= 10 and wanted.topic_id != NO_ID:
            topic = image.topics.get(wanted.topic_id)
            if topic is None or not topic.ready:
                return MetadataResponse.MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None if version >= 12 else "", topic_id=wanted.topic_id
                )
            return self._topic(image, topic, version, request.listener)
        name = wanted.name or ""
        topic = image.topic_named(name)
        if topic is not None and topic.ready:
            return self._topic(image, topic, version, request.listener)
        if topic_name_problem(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        elif topic is not None:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        elif allow_create and self._config["auto.create.topics.enable"]:
            error = self._create(name, request.principal)
        else:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse.MetadataResponseTopic(error_code=error, name=name, topic_id=NO_ID)

    def _create(self, name: str, principal: str) -> ErrorCode:
        now = self._loop.now.mono_ms
        if now // 1_000 != self._second:
            self._second, self._this_second = now // 1_000, 0
        if now >= self._asked.get(name, 0) and self._this_second < AUTO_CREATIONS_PER_SECOND:
            self._this_second += 1
            if len(self._asked) >= NEGATIVE_CACHE_MAX:
                self._asked.clear()
            self._asked[name] = now + NEGATIVE_CACHE_MS
            topic = {
                "name": name,
                "partitions": self._config["num.partitions"],
                "replication_factor": self._config["default.replication.factor"],
                "assignment": None,
                "configs": {},
            }
            payload: dict[str, object] = {
                "topics": [topic], "validate_only": False, "auto": True, "principal": principal,
            }  # fmt: skip
            self._ask("create_topics", payload, 30_000, lambda answer: None)
        return ErrorCode.LEADER_NOT_AVAILABLE

    @staticmethod
    def _topic(image: Image, topic: TopicState, version: int, listener: str) -> MetadataResponse.MetadataResponseTopic:
        def partition(index: int, state: PartitionState) -> MetadataResponse.MetadataResponsePartition:
            leader = image.brokers.get(state.leader) if state.leader != NO_LEADER else None
            led = leader is not None and leader.alive
            error = ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE
            if leader is not None and led and leader.address(listener) is None:
                led, error = False, ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
            return MetadataResponse.MetadataResponsePartition(
                error_code=error,
                partition_index=index,
                leader_id=state.leader if led else NO_LEADER,
                leader_epoch=state.leader_epoch,
                replica_nodes=list(state.replicas),
                isr_nodes=list(state.isr_ids),
                offline_replicas=[r for r in state.replicas if not image.alive(r)],
            )

        return MetadataResponse.MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.internal,
            partitions=[partition(i, s) for i, s in sorted(topic.partitions.items())],
            topic_authorized_operations=AUTHORIZED_OPERATIONS_UNKNOWN,
        )

    def describe_cluster(self, request: Request) -> None:
        image = self._image()
        if request.header.api_version >= 1 and request.body.endpoint_type != BROKERS:
            told = "this is a broker; the controllers have no endpoints of their own here"
            request.reply(DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=told))
            return
        request.reply(
            DescribeClusterResponse(
                error_code=ErrorCode.NONE,
                cluster_id=image.cluster_id,
                controller_id=self._config.broker_id,
                brokers=[
                    DescribeClusterResponse.DescribeClusterBroker(
                        broker_id=b.broker_id, host=host, port=port, rack=b.rack
                    )
                    for b, host, port in self._reachable(image, request.listener)
                ],
                cluster_authorized_operations=AUTHORIZED_OPERATIONS_UNKNOWN,
            )
        )

    def _reachable(self, image: Image, listener: str) -> list[tuple[BrokerState, str, int]]:
        """The live brokers that have this listener, with its host and port: whoever came by it can reach the others by it too.

        Whoever answers is one of them, seated or not: it is named as the one to send admin requests to, and librdkafka waits for a controller
        that is not among the brokers until it reads the metadata anew, five minutes later.
        """
        brokers = {b.broker_id: b for b in image.live_brokers()}
        brokers.setdefault(self._me.broker_id, self._me)
        return [(b, *at) for _, b in sorted(brokers.items()) if (at := b.address(listener)) is not None]
