"""Overview, brokers, changes, drift: what the cluster is and what was done to it."""

from __future__ import annotations

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import shapes
from controlplane.api.doors import Door, found, out, out_list, reads, writes
from controlplane.selectors import brokers, changes, overview, topics
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
