"""The hooks of a broker's replicas reach its components, although they are built after the replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest

from brokerd.cluster.model import Now, TopicPartition
from brokerd.replication.replica_hooks import ReplicaHooks
from brokerd.runtime.replica_hooks import BrokerReplicaHooks

TP, NOW = TopicPartition(UUID(int=1), 0), Now(1, 1)
REPLICA: Any = object()
CALLS: dict[str, tuple[tuple[Any, ...], str]] = {
    "follow": ((TP, 2, 3), "fetcher_manager.follow"),
    "unfollow": ((TP,), "fetcher_manager.unfollow"),
    "resume": ((TP,), "fetcher_manager.resume"),
    "on_election": (("t", 0, 3, NOW), "coordinators.on_election"),
    "on_resignation": (("t", 0, NOW), "coordinators.on_resignation"),
    "history_changed": ((REPLICA,), "history_reads.partition_changed"),
    "retain_history": ((REPLICA,), "history_reads.retain"),
    "confirm_leadership": ((print,), "leadership_confirmation.request"),
    "replica_lost": (("a tail",), "identity.record_loss"),
    "io_error": ((), "identity.tail_in_doubt"),
    "directory_failed": ((), "log_directory_failed"),
}


@pytest.mark.parametrize("hook", CALLS)
def test_a_hook_calls_a_component_that_was_built_later(hook: str) -> None:
    broker: Any = SimpleNamespace(front_delivery=Mock(), remote_logs=Mock(), routing=Mock())
    hooks = BrokerReplicaHooks(broker)
    arguments, target = CALLS[hook]
    component, _, method = target.partition(".")
    called = Mock()
    setattr(broker, component, called)
    getattr(hooks, hook)(*arguments)
    (getattr(called, method) if method else called).assert_called_once_with(*arguments)


def test_the_image_is_current_while_the_metadata_log_is_read_to_its_end() -> None:
    broker: Any = SimpleNamespace(front_delivery=Mock(), remote_logs=Mock(), routing=Mock())
    hooks = BrokerReplicaHooks(broker)
    for head_read in (True, False):
        broker.membership = SimpleNamespace(head_read=head_read)
        assert hooks.image_is_current() is head_read


def test_every_hook_is_covered_here() -> None:
    hooks = {name for name in vars(ReplicaHooks) if not name.startswith("_")}
    assert hooks == {*CALLS, "image_is_current"}
