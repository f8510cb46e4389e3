"""Overview, brokers, changes, drift: what the cluster is and what was done to it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, out_list, reads, writes
from controlplane.selectors import brokers, changes, overview, topics
from controlplane.services import brokers as broker_services
from controlplane.services import topics as topic_services


class Overview(Door):
    @reads(shapes.shape(overview.Overview))
    def get(self, request: Request) -> Response:
        return out(overview.overview())


class Brokers(Door):
    @reads(shapes.shape(brokers.BrokerRow)(many=True))
    def get(self, request: Request) -> Response:
        return out_list(brokers.broker_list())


class Broker(Door):
    @reads(shapes.shape(brokers.BrokerRow))
    def get(self, request: Request, broker_id: int) -> Response:
        return out(found(brokers.broker(broker_id), f"broker {broker_id}"))


class BrokerReplicas(Door):
    @reads(shapes.page_of(brokers.ReplicaRow), shapes.ListQuery)
    def get(self, request: Request, broker_id: int) -> Response:
        found(brokers.broker(broker_id), f"broker {broker_id}")
        return out(brokers.broker_replicas(broker_id, **self.listing(shapes.ListQuery, "topic")))


class BrokerRestart(Door):
    """Is it safe to restart this broker?"""

    @reads(shapes.shape(brokers.RestartVerdict))
    def get(self, request: Request, broker_id: int) -> Response:
        found(brokers.broker(broker_id), f"broker {broker_id}")
        return out(brokers.safe_to_restart(broker_id))


class BrokerDrain(Door):
    @reads(shapes.shape(brokers.DrainVerdict))
    def get(self, request: Request, broker_id: int) -> Response:
        """How far is it from being empty?"""
        return out(found(brokers.drain_state(broker_id), f"broker {broker_id}"))

    @writes(shapes.DrainStart, shapes.shape(brokers.DrainVerdict))
    def post(self, request: Request, broker_id: int) -> Response:
        """Cordon it, take leadership off it, move every replica off it: `move_id` is the move, which runs."""
        found(brokers.broker(broker_id), f"broker {broker_id}")
        broker_services.drain(broker_id, who=self.who, **self.body(shapes.DrainStart))
        return out(brokers.drain_state(broker_id))


ACTS: dict[str, Callable[..., Any]] = {
    "cordon": broker_services.cordon,
    "uncordon": broker_services.uncordon,
    "leaders_off": broker_services.leaders_off,
    "leaders_back": broker_services.leaders_back,
}


class BrokerAct(Door):
    @writes(shapes.Why, shapes.shape(brokers.BrokerRow))
    def post(self, request: Request, broker_id: int, act: str) -> Response:
        """`act`: cordon, uncordon, leaders_off or leaders_back. In force once the metadata log has it, which the answer may be too early to show."""
        found(brokers.broker(broker_id), f"broker {broker_id}")
        found(ACTS.get(act), f"act {act!r}; use {', '.join(ACTS)}")(
            broker_id, who=self.who, why=self.body(shapes.Why)["why"]
        )
        return out(brokers.broker(broker_id))


class Changes(Door):
    @reads(shapes.page_of(changes.ChangeRow), shapes.ChangeQuery)
    def get(self, request: Request) -> Response:
        return out(changes.change_list(**self.listing(shapes.ChangeQuery, "-id")))


class Drift(Door):
    """Where database and cluster differ; nothing is done about it but by adopting."""

    @reads(shapes.shape(topics.DriftRow)(many=True))
    def get(self, request: Request) -> Response:
        return out_list(topics.drift_list())


class Adopt(Door):
    @writes(shapes.Why, shapes.shape(topics.TopicRow))
    def post(self, request: Request, topic_id: uuid.UUID) -> Response:
        row = topic_services.adopt_topic(topic_id, who=self.who, why=self.body(shapes.Why)["why"])
        return out(found(topics.topic_row(row.name), f"topic {row.name}"))
