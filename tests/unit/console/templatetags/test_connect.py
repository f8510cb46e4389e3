"""Filters of the pages of Kafka Connect."""

from __future__ import annotations

import pytest

from console.templatetags.connect import connector_type, simple_name


def test_a_class_is_shown_without_its_package() -> None:
    assert simple_name("org.apache.kafka.connect.file.FileStreamSinkConnector") == "FileStreamSinkConnector"
    assert simple_name("Sink") == "Sink" and simple_name("") == "–"


@pytest.mark.parametrize(("kind", "shown"), [("source", "source"), ("sink", "sink"), ("unknown", "–")])
def test_an_unknown_type_of_a_connector_is_shown_as_a_dash(kind: str, shown: str) -> None:
    assert connector_type(kind) == shown
