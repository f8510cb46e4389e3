"""Incremental operations on topic configs. An empty `cleanup.policy` keeps all records, as in Kafka 4.2 (KIP-1161): by SET, by SUBTRACT of the last policy,
at creation."""

from __future__ import annotations

import pytest

from brokerd.cluster.configs import topic_config_problem
from brokerd.cluster.requests import AlterConfigOp, OpType
from brokerd.config.broker import BY_NAME
from brokerd.config.dynamic import CLUSTER_WIDE
from brokerd.config.dynamic import apply_operations as broker_altered
from controlplane.controller.request_validation import apply_config_operations


@pytest.mark.parametrize(
    ("before", "op", "value"),
    [({}, "set", ""), ({}, "subtract", "delete"), ({"cleanup.policy": "compact,delete"}, "subtract", "compact,delete")],
)
def test_the_last_cleanup_policy_of_a_topic_can_be_removed(before: dict[str, str], op: str, value: str) -> None:
    operation = AlterConfigOp("cleanup.policy", OpType(op), value)
    assert apply_config_operations(before, [operation]) == ({"cleanup.policy": ""}, None)
    back = AlterConfigOp("cleanup.policy", OpType.APPEND, "compact")
    assert apply_config_operations({"cleanup.policy": ""}, [back]) == ({"cleanup.policy": "compact"}, None)


def test_an_empty_cleanup_policy_is_valid_for_a_topic_and_as_the_default() -> None:
    assert topic_config_problem("cleanup.policy", "") is None
    operation = AlterConfigOp("log.cleanup.policy", OpType.SET, "")
    assert broker_altered(BY_NAME, {}, [operation], CLUSTER_WIDE) == ({"log.cleanup.policy": ""}, None)


def test_an_unknown_config_is_deleted_without_effect_and_cannot_be_set() -> None:
    """As in Kafka. MirrorMaker 2 deletes configs of Kafka 3.9 that Kafka 4 does not have, in the same request as the others of the topic."""
    gone = AlterConfigOp("message.downconversion.enable", OpType.DELETE)
    kept = AlterConfigOp("retention.ms", OpType.SET, "1000")
    assert apply_config_operations({"segment.ms": "9"}, [gone, kept]) == (
        {"segment.ms": "9", "retention.ms": "1000"},
        None,
    )
    _, problem = apply_config_operations({}, [AlterConfigOp("message.downconversion.enable", OpType.SET, "true")])
    assert problem == "Unknown topic config name: message.downconversion.enable"
