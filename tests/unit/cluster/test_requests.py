"""Forwarded requests and their bytes: each payload is decoded correctly, by this version and by the previous and the next one."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessKind, RequestCompleted
from brokerd.cluster.model import Now
from brokerd.cluster.requests import (
    PAYLOADS,
    AccessUpdate,
    AlterAccess,
    AlterBrokerConfigs,
    AlterConfigOp,
    AlterReassignments,
    AlterTopicConfigs,
    AnyPayload,
    BrokerConfigOps,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionResult,
    ElectLeaders,
    FeatureUpdate,
    ForwardedRequest,
    ItemResult,
    NewPartitions,
    NewReassignment,
    NewTopic,
    OpType,
    PartitionsToElect,
    RaiseMetadataLevel,
    RequestKind,
    TopicConfigOps,
    TopicToDelete,
    Unreadable,
    UpdateFeatures,
    results_from_json,
    results_to_json,
)
from brokerd.wire.errors import ErrorCode
from controlplane.controller.core import Core
from controlplane.controller.events import AppendMetadata, BrokersSeen, Elected, Requested

NOW = Now(1_000, 0)
OPS = (AlterConfigOp("a", OpType.SET, "1"), AlterConfigOp("b", OpType.DELETE))
EXAMPLES: list[tuple[AnyPayload, dict[str, Any]]] = [
    (
        CreateTopics(
            principal="User:a",
            items=(NewTopic("t", 2, 1, {0: (1,), 1: (2,)}, {"x": "1", "y": None}),),
            validate_only=True,
        ),
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": 2,
                    "replication_factor": 1,
                    "assignment": {"0": [1], "1": [2]},
                    "configs": {"x": "1", "y": None},
                }
            ],
            "validate_only": True,
            "principal": "User:a",
        },
    ),
    (
        CreateTopics(principal="User:a", items=(NewTopic("t", 2, 1),), auto=True),
        {
            "topics": [
                {"name": "t", "partitions": 2, "replication_factor": 1, "assignment": None, "configs": {}},
            ],
            "validate_only": False,
            "auto": True,
            "principal": "User:a",
        },
    ),
    (
        DeleteTopics(items=(TopicToDelete("t"), TopicToDelete(None, UUID(int=7)))),
        {"topics": [{"name": "t"}, {"id": str(UUID(int=7)), "name": None}], "validate_only": False, "principal": ""},
    ),
    (
        CreatePartitions(items=(NewPartitions("t", 3, ((1, 2),)),)),
        {"topics": [{"name": "t", "partitions": 3, "assignment": [[1, 2]]}]},
    ),
    (
        AlterTopicConfigs(items=(TopicConfigOps("t", OPS),)),
        {
            "topics": [
                {
                    "name": "t",
                    "configs": [
                        {"name": "a", "op": "set", "value": "1"},
                        {"name": "b", "op": "delete", "value": None},
                    ],
                }
            ]
        },
    ),
    (
        AlterBrokerConfigs(items=(BrokerConfigOps("", OPS[:1]),)),
        {"topics": [{"name": "", "configs": [{"name": "a", "op": "set", "value": "1"}]}]},
    ),
    (
        AlterAccess(items=(AccessUpdate("k", AccessKind.QUOTA, {"r": 1.5}), AccessUpdate("l", AccessKind.ACL, None))),
        {
            "topics": [
                {"name": "k", "kind": "quota", "value": {"r": 1.5}},
                {"name": "l", "kind": "acl", "value": None},
            ]
        },
    ),
    (
        AlterReassignments(items=(NewReassignment("t-0", "t", 0, (1, 2)), NewReassignment("t-1", "t", 1, None))),
        {
            "topics": [
                {"name": "t-0", "topic": "t", "partition": 0, "replicas": [1, 2]},
                {"name": "t-1", "topic": "t", "partition": 1, "replicas": None},
            ]
        },
    ),
    (
        ElectLeaders(items=(PartitionsToElect("t", (0, 1)),), unclean=True),
        {"topics": [{"name": "t", "partitions": [0, 1]}], "unclean": True, "validate_only": False},
    ),
    (
        UpdateFeatures(items=(FeatureUpdate("f", 2, 1),)),
        {"topics": [{"name": "f", "level": 2, "upgrade_type": 1}]},
    ),
    (RaiseMetadataLevel(level=3), {"level": 3}),
    (RaiseMetadataLevel(), {}),
    (ControlledShutdown(), {}),
]
"""A payload, and what the version before this one writes for it."""


def encoded_request(kind: str, payload: Any, **more: Any) -> bytes:
    return json.dumps({"broker_id": 1, "incarnation": 101, "kind": kind, "payload": payload, **more}).encode()


def test_every_kind_has_an_example() -> None:
    assert {p.KIND for p, _ in EXAMPLES} == set(RequestKind) == set(PAYLOADS)


@pytest.mark.parametrize(("payload", "before"), EXAMPLES)
def test_a_payload_is_read_as_it_was_written(payload: AnyPayload, before: dict[str, Any]) -> None:
    request = ForwardedRequest("r", 1, 101, payload)
    assert ForwardedRequest.decode("r", request.encode()) == request


@pytest.mark.parametrize(("payload", "before"), EXAMPLES)
def test_the_bytes_of_the_previous_version_are_read(payload: AnyPayload, before: dict[str, Any]) -> None:
    assert ForwardedRequest.decode("r", encoded_request(payload.KIND, before)).payload == payload


@pytest.mark.parametrize(("payload", "before"), EXAMPLES)
def test_the_previous_version_finds_all_fields_that_it_reads(payload: AnyPayload, before: dict[str, Any]) -> None:
    written = json.loads(ForwardedRequest("r", 1, 101, payload).encode())
    assert (written["broker_id"], written["incarnation"], written["kind"]) == (1, 101, payload.KIND.value)
    assert _contains(written["payload"], before), written["payload"]


def _contains(written: Any, before: Any) -> bool:
    if isinstance(before, dict):
        return all(k in written and _contains(written[k], v) for k, v in before.items())
    if isinstance(before, list):
        return len(written) == len(before) and all(map(_contains, written, before))
    return bool(written == before)


@pytest.mark.parametrize(("payload", "before"), EXAMPLES)
def test_fields_of_a_later_version_are_ignored(payload: AnyPayload, before: dict[str, Any]) -> None:
    later = {k: [v | {"later": 1} for v in vs] if k == "topics" else vs for k, vs in before.items()}
    request = ForwardedRequest.decode("r", encoded_request(payload.KIND, later | {"later": [1]}, later="x"))
    assert request.payload == payload


def response_to(data: bytes) -> RequestCompleted:
    """The controller's response to a request with these bytes."""
    core = Core(Image(cluster_id="c"), "c")
    core.handle(Elected(1), NOW)
    core.handle(BrokersSeen({}), NOW)
    core.in_flight = False
    effects = core.handle(Requested(ForwardedRequest.decode("r", data)), NOW)
    (response,) = [
        record
        for e in effects
        if isinstance(e, AppendMetadata)
        for record in e.records
        if isinstance(record, RequestCompleted)
    ]
    return response


def replace_at_path(value: Any, path: list[Any], by: Any) -> Any:
    """`value` with another value at this path; by ... removes it."""
    if not path:
        return by
    out = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and by is ...:
        del out[path[0]]
    else:
        out[path[0]] = replace_at_path(value[path[0]], path[1:], by)
    return out


def paths(value: Any) -> list[list[Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [[k, *rest] for k, v in pairs for rest in ([], *paths(v))]


MALFORMED = [
    (payload.KIND, before, path, by)
    for payload, before in EXAMPLES
    for path in paths(before)
    if path[-1] != "later" and "value" not in path[:-1]
    for by in ({"a": 1}, [{}], True, 2**70, "\ud800", 1.5)
    if not (by is True and path[-1] in ("validate_only", "auto", "unclean"))
    and not (path[-1] == "value" and by == {"a": 1})
    and not (path[-1] == "configs" and by == {"a": 1})
    and not (payload.KIND is RequestKind.DELETE_TOPICS and by in ([{}], {"a": 1}) and len(path) < 3)
]


@pytest.mark.parametrize("kind", sorted({m[0] for m in MALFORMED}))
def test_a_value_of_another_type_is_answered_with_an_error_code(kind: RequestKind) -> None:
    for _, before, path, by in [m for m in MALFORMED if m[0] is kind]:
        data = encoded_request(kind, replace_at_path(before, path, by))
        request = ForwardedRequest.decode("r", data)
        assert isinstance(request.payload, Unreadable), (kind, path, by)
        assert response_to(data).error == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("create_topics", {}),
        ("create_topics", {"topics": [{"name": "t"}]}),
        ("create_partitions", {"topics": [{"partitions": 3}]}),
        ("alter_topic_configs", {"topics": [{"name": "t", "configs": [{"name": "a", "op": "multiply"}]}]}),
        ("alter_access", {"topics": [{"name": "k", "kind": "broker", "value": {}}]}),
        ("alter_access", {"topics": [{"name": "k", "kind": "quota", "value": {"r": float("inf")}}]}),
        ("delete_topics", {"topics": [{"id": "7"}]}),
        ("alter_reassignments", {"topics": [{"name": "t-0", "topic": "t", "partition": 0}]}),
        ("raise_metadata_level", {"level": "3"}),
        ("raise_metadata_level", []),
        ("a_later_kind", {}),
    ],
)
def test_an_incomplete_or_unknown_request_is_answered_with_an_error_code(kind: str, payload: Any) -> None:
    response = response_to(encoded_request(kind, payload))
    assert response.error == ErrorCode.INVALID_REQUEST
    assert response.message


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"[]", b"7", b"{}", b"[" * 100_000, b"9" * 5_000, b'{"broker_id":1,"incarnation":1,"kind":"k"}'],
)
def test_bytes_that_are_no_request_are_answered_with_an_error_code(data: bytes) -> None:
    assert response_to(data).error == ErrorCode.INVALID_REQUEST


def test_a_value_that_is_nested_too_deeply_is_answered_with_an_error_code() -> None:
    value: Any = {}
    for _ in range(400):
        value = {"a": value}
    payload = {"topics": [{"name": "k", "kind": "quota", "value": value}]}
    assert response_to(encoded_request("alter_access", payload)).error == ErrorCode.INVALID_REQUEST


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from([*RequestKind]), st.data())
def test_any_json_value_in_any_field_is_answered(kind: RequestKind, data: st.DataObject) -> None:
    before = data.draw(st.sampled_from([b for p, b in EXAMPLES if kind == p.KIND]))
    path = data.draw(st.sampled_from([[], *paths(before)]))
    payload = replace_at_path(before, path, data.draw(JSON | st.just(...)) if path else data.draw(JSON))
    request = ForwardedRequest.decode("r", encoded_request(kind, payload))
    if isinstance(request.payload, Unreadable):
        assert response_to(encoded_request(kind, payload)).error == ErrorCode.INVALID_REQUEST
    else:
        assert ForwardedRequest.decode("r", request.encode()) == request


@given(st.binary(max_size=200))
def test_any_bytes_are_a_request(data: bytes) -> None:
    assert isinstance(ForwardedRequest.decode("r", data), ForwardedRequest)


def test_results_are_read_as_they_were_written() -> None:
    results = (ItemResult("a"), ItemResult(None, 3, "no"))
    assert results_to_json(results)["results"][1] == {"name": None, "error": 3, "message": "no"}
    assert results_from_json(results_to_json(results)) == results
    elected = (ElectionResult("t", partitions=((0, 0), (1, 84))),)
    assert results_to_json(elected)["results"][0]["partitions"] == [[0, 0], [1, 84]]
    assert results_from_json(results_to_json(elected), ElectionResult) == elected
