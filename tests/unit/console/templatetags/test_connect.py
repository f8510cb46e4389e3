"""Filters of the pages of Kafka Connect."""

from __future__ import annotations

from console.templatetags.connect import simple_name


def test_a_class_is_shown_without_its_package() -> None:
    assert simple_name("org.apache.kafka.connect.file.FileStreamSinkConnector") == "FileStreamSinkConnector"
    assert simple_name("Sink") == "Sink" and simple_name("") == "–"
