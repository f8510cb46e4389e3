"""Filters of the pages of Kafka Connect."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def simple_name(class_name: str) -> str:
    """`org.apache.kafka.connect.file.FileStreamSinkConnector` as FileStreamSinkConnector."""
    return class_name.rpartition(".")[2] or "–"
