"""The administrator's doors to topics and partitions.

Laws: nothing is decided here: what changes the cluster is forwarded to the controller through ZooKeeper, in pieces that its nodes and
the metadata log can hold, and answered when the metadata log answers; what is asked about it is read from the image. Each client gets Kafka's codes and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.access.mutations import Mutations
from brokerd.apis.forwarding import Ask, Forwarding, Results
from brokerd.cluster.image import Image
from brokerd.cluster.model import Now
from brokerd.config import BrokerConfig
from brokerd.dispatch import Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

SOURCE_TOPIC = 1
"""Of a config, in Kafka's words DYNAMIC_TOPIC_CONFIG."""


STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""From this version on a client knows THROTTLING_QUOTA_EXCEEDED (KIP-599); an older one has its way and waits afterwards."""
EXCEEDED = {"error": ErrorCode.THROTTLING_QUOTA_EXCEEDED, "message": "The throttling quota has been exceeded."}


class AdminApi:
    def __init__(
        self, config: BrokerConfig, image: Callable[[], Image], ask: Ask, mutations: Mutations, clock: Callable[[], Now]
    ) -> None:
        self._config, self._image = config, image
        self._forward = Forwarding(ask)
        self._mutations, self._clock = mutations, clock

    def _within_quota(
        self,
        request: Request,
        kind: str,
        topics: Sequence[Mapping[str, Any]],
        counts: Sequence[int],
        validate_only: bool,
        answered: Callable[[Results], None],
        partitions: int = 0,
    ) -> None:
        """Forward those topics that the asker's quota has room for; `counts` are the partitions that each makes or deletes."""
        key = request.header.api_key
        strict = request.header.api_version >= STRICT_SINCE[ApiKey(key)]
        taken = self._mutations.take(request, counts, self._clock().mono_ms, strict=strict)

        def whole(results: Results) -> None:
            rest = iter(results)
            answered([next(rest) if may else {**t, **EXCEEDED} for t, may in zip(topics, taken, strict=True)])

        allowed = [t for t, may in zip(topics, taken, strict=True) if may]
        self._forward(request.principal, kind, allowed, validate_only, request.body.timeout_ms, whole, partitions)

    # -- topics --------------------------------------------------------------------------------------------------------
    def create_topics(self, request: Request) -> None:
        body: CreateTopicsRequest = request.body
        topics = [
            {
                "name": t.name,
                "partitions": len(t.assignments) or t.num_partitions,
                "replication_factor": len(t.assignments[0].broker_ids) if t.assignments else t.replication_factor,
                "assignment": {str(a.partition_index): list(a.broker_ids) for a in t.assignments} or None,
                "configs": {c.name: c.value for c in t.configs},
            }
            for t in body.topics
        ]
        for topic in topics:
            if topic["partitions"] == -1:
                topic["partitions"] = self._config["num.partitions"]
            if topic["replication_factor"] == -1:
                topic["replication_factor"] = self._config["default.replication.factor"]

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            shaped = []
            for result in results:
                shape = CreateTopicsResponse.CreatableTopicResult(
                    name=result["name"],
                    error_code=result["error"],
                    error_message=result.get("message"),
                    num_partitions=-1,
                    replication_factor=-1,
                )
                state = self._image().topic_named(result["name"])
                if not result["error"] and state is not None and state.partitions:
                    shape.topic_id = state.topic_id
                    shape.num_partitions = state.partition_count
                    shape.replication_factor = len(next(iter(state.partitions.values())).replicas)
                    shape.configs = [
                        CreateTopicsResponse.CreatableTopicConfigs(name=n, value=v, config_source=SOURCE_TOPIC)
                        for n, v in state.configs.items()
                    ]
                shaped.append(shape)
            request.reply(CreateTopicsResponse(topics=shaped))

        counts = [max(0, int(str(t["partitions"]))) for t in topics]
        made = [0 if self._image().topic_named(str(t["name"])) else n for t, n in zip(topics, counts, strict=True)]
        self._within_quota(request, "create_topics", topics, made, body.validate_only, answered, sum(counts))

    def delete_topics(self, request: Request) -> None:
        body: DeleteTopicsRequest = request.body
        image = self._image()
        wanted: list[dict[str, Any]] = []
        if request.header.api_version >= 6:
            for t in body.topics:
                if t.name is not None:
                    wanted.append({"name": t.name})
                else:
                    state = image.topics.get(t.topic_id)
                    wanted.append({"id": str(t.topic_id), "name": state.name if state is not None else None})
        else:
            wanted = [{"name": name} for name in body.topic_names]
        states = [image.topic_named(w["name"]) if w["name"] else None for w in wanted]
        ids = {state.name: state.topic_id for state in states if state is not None}

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            shaped = []
            for w, result in zip(wanted, results, strict=True):
                shape = DeleteTopicsResponse.DeletableTopicResult(
                    name=result["name"], error_code=result["error"], error_message=result.get("message")
                )
                if w["name"] in ids:
                    shape.topic_id = ids[w["name"]]
                shaped.append(shape)
            request.reply(DeleteTopicsResponse(responses=shaped))

        counts = [state.partition_count if state is not None else 0 for state in states]
        self._within_quota(request, "delete_topics", wanted, counts, False, answered)

    def create_partitions(self, request: Request) -> None:
        body: CreatePartitionsRequest = request.body
        topics = [
            {
                "name": t.name,
                "partitions": t.count,
                "assignment": [list(a.broker_ids) for a in t.assignments] if t.assignments else None,
            }
            for t in body.topics
        ]

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            request.reply(
                CreatePartitionsResponse(
                    results=[
                        CreatePartitionsResponse.CreatePartitionsTopicResult(
                            name=r["name"], error_code=r["error"], error_message=r.get("message")
                        )
                        for r in results
                    ]
                )
            )

        image = self._image()
        held = {t.name: state.partition_count for t in body.topics if (state := image.topic_named(t.name))}
        added = [max(0, t.count - held[t.name]) if t.name in held else 0 for t in body.topics]
        self._within_quota(request, "create_partitions", topics, added, body.validate_only, answered, sum(added))
