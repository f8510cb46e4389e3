"""Metrics of half messages, delayed messages and dead letters of a topic, from the rows of the cluster monitor. Does not contain: the messages."""

from __future__ import annotations

from controlplane.domain.message_metrics import COLUMNS, MessageMetrics
from controlplane.models import TopicMessages


def metrics_of(topic: str) -> MessageMetrics:
    """Return the metrics of the topic. Before the first round of the monitor each metric is None."""
    row = TopicMessages.objects.filter(topic=topic).first()
    return MessageMetrics() if row is None else MessageMetrics(**{name: getattr(row, name) for name in COLUMNS})
