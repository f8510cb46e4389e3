"""Filters of the pages of Kafka Connect."""

from __future__ import annotations

from django import template

from console.texts import gettext_lazy
from controlplane.domain.connect import ConnectorType

TYPES = {ConnectorType.SOURCE: gettext_lazy("source"), ConnectorType.SINK: gettext_lazy("sink")}

register = template.Library()


@register.filter
def simple_name(class_name: str) -> str:
    """`org.apache.kafka.connect.file.FileStreamSinkConnector` as FileStreamSinkConnector."""
    return class_name.rpartition(".")[2] or "–"


@register.filter
def connector_type(value: str) -> str:
    return TYPES.get(ConnectorType(value), "–")
