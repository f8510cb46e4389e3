"""NUL in texts: a name that a Kafka client chose can be stored in each database."""

from __future__ import annotations

import json

import pytest
from django.db import connection

from controlplane.db.bulk import insert_many
from controlplane.db.postgres import without_nul
from controlplane.models import Change, ConsumerGroup


@pytest.mark.parametrize("text", ["plain", "a\0b", "\0\0", "\\u0000", "a\\\0", '"\0"', "\\\\u0000\0"])
def test_only_nul_is_replaced_in_json(text: str) -> None:
    found = json.loads(without_nul(json.dumps({"key": text}).encode()))
    assert found == {"key": text.replace("\0", "\ufffd")}


@pytest.mark.django_db
def test_names_with_nul_are_stored() -> None:
    stored = "a\ufffdb" if connection.vendor == "postgresql" else "a\0b"
    ConsumerGroup.objects.create(group_id="a\0b", state="Empty", observed_at="2026-11-26T00:00:00Z")
    assert ConsumerGroup.objects.get(group_id="a\0b").group_id == stored
    Change.objects.create(actor="a", verb="x", object_kind="x", object_name="a\0b", after={"key": "\0", "b": "\\u0000"})
    row = Change.objects.get()
    assert (row.object_name, row.after["b"]) == (stored, "\\u0000") and len(row.after["key"]) == 1
    values = ("b\0", "Empty", "2026-11-26T00:00:00Z")
    insert_many(ConsumerGroup, ["group_id", "state", "observed_at"], [values])
    assert ConsumerGroup.objects.count() == 2
