"""The administrator's doors: topics, partitions, configs, log folders.

Laws: nothing is decided here: what changes the cluster is forwarded to the controller through ZooKeeper, in pieces that its nodes and
the metadata log can hold, and answered when the metadata log answers; what is asked about it is read from the image. Each client gets Kafka's codes and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster import configs
from brokerd.cluster.image import Image
from brokerd.cluster.model import TopicState
from brokerd.config import SETTINGS, BrokerConfig
from brokerd.dispatch import Request
from brokerd.listeners import show_listeners
from brokerd.partitions import Partitions
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import (
    AlterConfigsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER = 2, 4, 8
SOURCE_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
OPERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}


class AdminApi:
    def __init__(self, config: BrokerConfig, partitions: Partitions, image: Callable[[], Image], ask: Ask) -> None:
        self._config, self._partitions, self._image = config, partitions, image
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

    # -- configs -------------------------------------------------------------------------------------------------------
    def incremental_alter_configs(self, request: Request) -> None:
        body: IncrementalAlterConfigsRequest = request.body
        resources = [
            (r.resource_type, r.resource_name, [{"name": c.name, "op": OPERATIONS.get(c.config_operation, "unknown"),
                                                 "value": c.value} for c in r.configs])
            for r in body.resources
        ]  # fmt: skip

        def finish(results: Sequence[Mapping[str, Any]]) -> None:
            request.reply(
                IncrementalAlterConfigsResponse(
                    responses=[
                        IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                            resource_type=kind,
                            resource_name=name,
                            error_code=r["error"],
                            error_message=r.get("message"),
                        )
                        for (kind, name, _), r in zip(resources, results, strict=True)
                    ]
                )
            )

        self._alter(request.principal, resources, body.validate_only, finish)

    def alter_configs(self, request: Request) -> None:
        """The legacy call: what is not named goes back to its default."""
        body = request.body
        image = self._image()
        resources = []
        for r in body.resources:
            given = {c.name: c.value for c in r.configs}
            ops: list[dict[str, Any]] = [{"name": n, "op": "set", "value": v} for n, v in given.items()]
            state = image.topic_named(r.resource_name) if r.resource_type == RESOURCE_TOPIC else None
            if state is not None:
                ops += [{"name": n, "op": "delete", "value": None} for n in state.configs if n not in given]
            resources.append((r.resource_type, r.resource_name, ops))

        def finish(results: Sequence[Mapping[str, Any]]) -> None:
            request.reply(
                AlterConfigsResponse(
                    responses=[
                        AlterConfigsResponse.AlterConfigsResourceResponse(
                            resource_type=kind,
                            resource_name=name,
                            error_code=r["error"],
                            error_message=r.get("message"),
                        )
                        for (kind, name, _), r in zip(resources, results, strict=True)
                    ]
                )
            )

        self._alter(request.principal, resources, body.validate_only, finish)

    def _alter(
        self,
        principal: str,
        resources: list[tuple[int, str, list[dict[str, Any]]]],
        validate_only: bool,
        finish: Callable[[Sequence[Mapping[str, Any]]], None],
    ) -> None:
        results: list[Mapping[str, Any]] = [
            {"error": ErrorCode.INVALID_REQUEST, "message": "only topic configs can be altered so far"}
        ] * len(resources)
        places = [i for i, r in enumerate(resources) if r[0] == RESOURCE_TOPIC]
        if not places:
            finish(results)
            return

        def answered(answers: Sequence[Mapping[str, Any]]) -> None:
            for place, result in zip(places, answers, strict=True):
                results[place] = result
            finish(results)

        topics = [{"name": resources[i][1], "configs": resources[i][2]} for i in places]
        self._forward(principal, "alter_topic_configs", topics, validate_only, 30_000, answered)

    def describe_configs(self, request: Request) -> None:
        body: DescribeConfigsRequest = request.body
        image = self._image()
        results = []
        # Each once: an answer is a hundred times its question.
        for resource in {(r.resource_type, r.resource_name): r for r in body.resources}.values():
            result = DescribeConfigsResponse.DescribeConfigsResult(
                resource_type=resource.resource_type, resource_name=resource.resource_name
            )
            results.append(result)
            keys = set(resource.configuration_keys) if resource.configuration_keys else None
            if resource.resource_type == RESOURCE_TOPIC:
                topic = image.topic_named(resource.resource_name)
                if topic is None or not topic.ready:
                    result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    result.error_message = f"there is no topic {resource.resource_name!r}"
                    continue
                result.configs = self._topic_configs(topic, keys, body.include_documentation)
            elif resource.resource_type == RESOURCE_BROKER and resource.resource_name in (
                "",
                str(self._config.broker_id),
            ):
                result.configs = self._broker_configs(keys, body.include_documentation)
            else:
                result.error_code = ErrorCode.INVALID_REQUEST
                result.error_message = (
                    f"broker {self._config.broker_id} describes topics and itself, not resource type "
                    f"{resource.resource_type} named {resource.resource_name!r}"
                )
        request.reply(DescribeConfigsResponse(results=results))

    def _topic_configs(
        self, topic: TopicState, keys: set[str] | None, documented: bool
    ) -> list[DescribeConfigsResponse.DescribeConfigsResourceResult]:
        out = []
        for definition in configs.TOPIC_CONFIGS.values():
            if keys is not None and definition.name not in keys:
                continue
            broker_value = self._config.topic_defaults.get(definition.broker_synonym or "")
            synonyms = [("default", definition.default_text, SOURCE_DEFAULT)]
            if broker_value is not None:
                synonyms.insert(0, (definition.broker_synonym or "", broker_value, SOURCE_STATIC))
            if definition.name in topic.configs:
                synonyms.insert(0, (definition.name, topic.configs[definition.name], SOURCE_TOPIC))
            name, value, source = synonyms[0]
            del name
            out.append(
                DescribeConfigsResponse.DescribeConfigsResourceResult(
                    name=definition.name,
                    value=value,
                    config_source=source,
                    is_default=source == SOURCE_DEFAULT,
                    config_type=definition.kafka_type,
                    documentation=definition.doc if documented else None,
                    synonyms=[
                        DescribeConfigsResponse.DescribeConfigsSynonym(
                            name=n if n != "default" else definition.name, value=v, source=s
                        )
                        for n, v, s in synonyms
                    ],
                )
            )
        return out

    def _broker_configs(
        self, keys: set[str] | None, documented: bool
    ) -> list[DescribeConfigsResponse.DescribeConfigsResourceResult]:
        out = []
        for setting in SETTINGS:
            if keys is not None and setting.name not in keys:
                continue
            value = None if setting.secret else self._config[setting.name]
            if isinstance(value, tuple) and setting.name.endswith("listeners"):
                value = show_listeners(value)
            elif isinstance(value, dict):
                value = ",".join(f"{k}:{v}" for k, v in value.items())
            elif isinstance(value, tuple):
                value = ",".join(str(v) for v in value)
            elif isinstance(value, bool):
                value = str(value).lower()
            default = self._config[setting.name] == setting.default
            out.append(
                DescribeConfigsResponse.DescribeConfigsResourceResult(
                    name=setting.name,
                    value=None if value is None else str(value),
                    read_only=True,
                    config_source=SOURCE_DEFAULT if default else SOURCE_STATIC,
                    is_default=default,
                    is_sensitive=setting.secret,
                    documentation=setting.doc if documented else None,
                )
            )
        return out
