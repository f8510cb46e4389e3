"""The administrator's doors to topics and partitions.

Laws: nothing is decided here: what changes the cluster is forwarded to the controller through ZooKeeper, in pieces that its nodes and
the metadata log can hold, and answered when the metadata log answers; what is asked about it is read from the image. Each client gets Kafka's codes and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster.image import Image
from brokerd.config import BrokerConfig
from brokerd.dispatch import Request
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


class AdminApi:
    def __init__(self, config: BrokerConfig, image: Callable[[], Image], ask: Ask) -> None:
        self._config, self._image = config, image
        self._forward = Forwarding(ask)

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

        partitions = sum(max(0, int(str(t["partitions"]))) for t in topics)
        self._forward(
            request.principal, "create_topics", topics, body.validate_only, body.timeout_ms, answered, partitions
        )

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
        ids = {w["name"]: state.topic_id for w in wanted if w["name"] and (state := image.topic_named(w["name"]))}

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

        self._forward(request.principal, "delete_topics", wanted, False, body.timeout_ms, answered)

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
        added = sum(max(0, t.count - held[t.name]) for t in body.topics if t.name in held)
        self._forward(
            request.principal, "create_partitions", topics, body.validate_only, body.timeout_ms, answered, added
        )
