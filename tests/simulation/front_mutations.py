"""Mutations of the product that the worlds of half messages and of delayed messages must detect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.runtime.front_delivery import FrontDelivery


def retention_applies_to_front_topics(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TopicConfig, "retention_deletes", property(lambda self: True))
    patch.setattr(TopicConfig, "deletes", property(lambda self: True))


def a_record_of_a_new_partition_goes_to_an_existing_one(patch: pytest.MonkeyPatch) -> None:
    send = FrontDelivery.send

    def mutated_send(self: FrontDelivery, replica: Any, target: Any, batch: bytes, done: Any) -> None:
        topic = self.replica_manager.image.topic_named(self._target_name(replica, target))
        if topic is not None and replica.tp.partition not in topic.partitions:
            replica = SimpleNamespace(tp=replica.tp._replace(partition=0), config=replica.config)
        send(self, replica, target, batch, done)

    patch.setattr(FrontDelivery, "send", mutated_send)
