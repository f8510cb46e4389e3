"""Subjects of a registry over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane.clients import schema_subjects as subjects
from controlplane.clients.schema_subjects import NewSchema, SchemaReference
from tests.unit.registry_server import RegistryState, running_registry
from weir_common.schema_formats import SchemaType, SchemaUnavailable
from weir_common.schema_registry import RegistryRejected, SchemaRegistryClient, SchemaUnknown


@pytest.fixture
def state() -> Iterator[RegistryState]:
    with running_registry() as found:
        yield found


def test_names_versions_levels_and_references(state: RegistryState) -> None:
    client = SchemaRegistryClient(state.url)
    state.add("b/1 key", '"string"')
    used = state.add("a", '"int"', references=[{"name": "x", "subject": "b/1 key", "version": 1}])
    state.levels["a"] = "FULL"
    assert subjects.subject_names(client) == ["a", "b/1 key"] and subjects.versions(client, "b/1 key") == [1]
    assert subjects.version(client, "a").references == [SchemaReference("x", "b/1 key", 1)]
    assert subjects.compatibility(client, "a") == "FULL" and subjects.compatibility(client, "b/1 key") == "BACKWARD"
    assert subjects.referencing_ids(client, "b/1 key", 1) == [used]
    with pytest.raises(SchemaUnknown):
        subjects.version(client, "a", 7)


def test_check_register_and_delete(state: RegistryState) -> None:
    client = SchemaRegistryClient(state.url)
    good, bad = NewSchema(SchemaType.AVRO, '"int"'), NewSchema(SchemaType.AVRO, '"incompatible"')
    assert subjects.incompatibilities(client, "a", bad) == (True, []), "a new subject accepts every schema"
    assert subjects.register(client, "a", good) == 1
    assert subjects.incompatibilities(client, "a", bad)[0] is False
    with pytest.raises(RegistryRejected, match="is incompatible"):
        subjects.register(client, "a", bad)
    subjects.register(client, "a", NewSchema(SchemaType.JSON, "{}", (SchemaReference("n", "b", 2),)))
    assert subjects.version(client, "a").references == [SchemaReference("n", "b", 2)]
    subjects.delete_version(client, "a", 1)
    assert subjects.versions(client, "a") == [2]
    subjects.delete_subject(client, "a")
    assert subjects.subject_names(client) == []


def test_a_response_of_another_form_is_an_error(state: RegistryState, monkeypatch: pytest.MonkeyPatch) -> None:
    client = SchemaRegistryClient(state.url)
    monkeypatch.setattr(client, "request", lambda *_: {"a": 1})
    for read in (subjects.subject_names, lambda c: subjects.version(c, "a")):
        with pytest.raises(SchemaUnavailable):
            read(client)
