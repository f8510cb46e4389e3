"""Metrics of half messages, delayed messages and dead letters of a topic, from the rows of the cluster monitor. Does not contain: the messages."""

from __future__ import annotations

from controlplane.domain.message_figures import COLUMNS, MessageFigures
from controlplane.models import TopicMessages


def figures_of(topic: str) -> MessageFigures:
    """Return the metrics of the topic. Before the first round of the monitor each metric is None."""
    row = TopicMessages.objects.filter(topic=topic).first()
    return MessageFigures() if row is None else MessageFigures(**{name: getattr(row, name) for name in COLUMNS})
