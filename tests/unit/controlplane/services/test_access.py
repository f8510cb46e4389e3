"""ACLs, credentials and quotas from the row to the metadata log: ordered by generation, without a return to an earlier generation, and without
plain-text passwords."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, BrokerConfigChanged, RequestCompleted
from brokerd.cluster.model import Now
from brokerd.cluster.typed_json import encode
from brokerd.security import scram
from controlplane.controller.core import Core
from controlplane.controller.database import DatabaseThread
from controlplane.controller.events import (
    AppendMetadata,
    BrokersSeen,
    DesiredAccess,
    DesiredRead,
    Elected,
    Report,
    Requested,
    WriteDesired,
)
from controlplane.models import AccessEntry, Acl, Change, Cluster
from controlplane.services import access, acls, broker_configs, quotas, users
from controlplane.services.common import Rejected
from tests.unit.stored_requests import forwarded_request

NOW = Now(1, 1)
ACL = {
    "resource_type": "topic",
    "pattern_type": "literal",
    "resource_name": "t",
    "principal": "User:a",
    "host": "*",
    "operation": "read",
    "permission": "allow",
}


def active_controller() -> tuple[Core, Image]:
    image = Image(cluster_id="c", metadata_version=3)
    core = Core(image, str(uuid4()))
    core.handle(Elected(1), NOW)
    core.handle(BrokersSeen({}), NOW)
    core.in_flight = False
    return core, image


def appended_records(effects: list[Any]) -> list[Any]:
    return [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]


def test_the_log_accepts_only_a_newer_generation() -> None:
    core, image = active_controller()
    image.apply(AccessChanged("acl", "k", 3, ACL))
    assert not [
        r
        for r in appended_records(core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 3, ACL),)), NOW))
        if isinstance(r, AccessChanged)
    ]
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 2, None),)), NOW)
    assert [e.kind for e in effects if isinstance(e, Report)] == ["drift"]
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 4, None),)), NOW)
    assert appended_records(effects)[-1] == AccessChanged("acl", "k", 4, None)


def test_routes_need_their_level_of_the_metadata_log() -> None:
    core, image = active_controller()
    given = DesiredRead(access=(DesiredAccess("route", "r", 1, {"source": "s"}),))
    effects = core.handle(given, NOW)
    (report,) = (e for e in effects if isinstance(e, Report))
    assert report.kind == "refused" and "routes need 8" in report.text
    assert not [r for r in appended_records(effects) if isinstance(r, AccessChanged)]
    image.metadata_version = 8
    core.in_flight = False
    assert appended_records(core.handle(given, NOW))[-1] == AccessChanged("route", "r", 1, {"source": "s"})


def test_a_principal_of_a_route_needs_a_higher_level() -> None:
    """A broker of level 8 ignores the field: it would route the records without the ACLs of the principal."""
    core, image = active_controller()
    image.metadata_version = 8
    value = {"source": "s", "principal": "User:payments"}
    given = DesiredRead(access=(DesiredAccess("route", "r", 1, value), DesiredAccess("route", "q", 1, None)))
    effects = core.handle(given, NOW)
    (report,) = (e for e in effects if isinstance(e, Report))
    assert report.kind == "refused" and "principals of routes need 9" in report.text
    assert [r for r in appended_records(effects) if isinstance(r, AccessChanged)] == [
        AccessChanged("route", "q", 1, None)
    ]
    image.metadata_version = 9
    core.in_flight = False
    assert AccessChanged("route", "r", 1, value) in appended_records(core.handle(given, NOW))


def test_a_request_is_answered_in_the_entry_of_its_effect() -> None:
    core, _ = active_controller()
    item = {"name": "SCRAM-SHA-256:a", "kind": "scram", "value": {"iterations": 4096}}
    core.handle(Requested(forwarded_request("r", 1, 1, "alter_access", {"topics": [item]})), NOW)
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("scram", item["name"], 1, item["value"], "r"),)), NOW)
    changed, completed = appended_records(effects)[-2:]
    assert changed == AccessChanged("scram", "SCRAM-SHA-256:a", 1, {"iterations": 4096})
    assert isinstance(completed, RequestCompleted)
    assert completed.result["results"][0]["error"] == 0


def settings(name: str, **values: str | None) -> dict[str, Any]:
    configs = [{"name": n, "op": "delete" if v is None else "set", "value": v} for n, v in values.items()]
    return {"name": name, "configs": configs}


def test_broker_configs_have_their_own_metadata_record() -> None:
    core, image = active_controller()
    item = settings("", threads="5")
    effects = core.handle(Requested(forwarded_request("r", 1, 1, "alter_broker_configs", {"topics": [item]})), NOW)
    assert [encode(e.request.payload)["topics"] for e in effects if isinstance(e, WriteDesired)] == [[item]]
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("broker", "-1", 1, {"threads": "5"}, "r"),)), NOW)
    changed, completed = appended_records(effects)[-2:]
    assert changed == BrokerConfigChanged(-1, 1, {"threads": "5"})
    assert completed.result["results"][0]["error"] == 0
    image.apply(changed)
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("broker", "-1", 0, {}),)), NOW)
    assert [e.kind for e in effects if isinstance(e, Report)] == ["drift"]


@pytest.mark.parametrize(
    "item", [settings("one", a="1"), settings("7", a="1"), {"name": "", "configs": [{"name": "a", "op": "append"}]}]
)
def test_configs_of_an_invalid_broker_id_are_rejected(item: dict[str, Any]) -> None:
    core, _ = active_controller()
    effects = core.handle(Requested(forwarded_request("r", 1, 1, "alter_broker_configs", {"topics": [item]})), NOW)
    (response,) = [r for r in appended_records(effects) if isinstance(r, RequestCompleted)]
    assert response.result["results"][0]["error"] == 42


@pytest.mark.django_db
def test_two_changes_of_a_brokers_configs_are_both_kept() -> None:
    posted: list[Any] = []
    thread, image = DatabaseThread(), Image(metadata_version=3)
    thread.image, thread._post = image, posted.append
    image.apply(BrokerConfigChanged(1, 4, {"held": "0", "gone": "0"}))
    for number, item in enumerate((settings("1", a="1", gone=None), settings("1", b="2"))):
        payload = {"topics": [item], "principal": "User:ann"}
        thread._handle(forwarded_request(f"r{number}", 1, 1, "alter_broker_configs", payload))
    assert [(a.kind, a.key, a.generation, a.value) for response in posted for a in response.access] == [
        ("broker", "1", 5, {"held": "0", "a": "1"}),
        ("broker", "1", 6, {"held": "0", "a": "1", "b": "2"}),
    ]
    assert [(c.actor, c.verb, c.object_name) for c in Change.objects.all()] == [
        ("User:ann at broker 1", "broker.set", "1")
    ] * 2


@pytest.mark.django_db
def test_broker_configs_are_imported_from_the_log_into_an_empty_database() -> None:
    image = Image(metadata_version=3)
    image.apply(BrokerConfigChanged(-1, 4, {"num.partitions": "5"}))
    assert access.import_access(image, actor="w") == 1
    row = AccessEntry.objects.get()
    assert (row.kind, row.key, row.value, row.generation, row.waiting) == (
        "broker",
        "-1",
        {"num.partitions": "5"},
        4,
        False,
    )
    assert access.import_access(image, actor="w") == 0


def test_tombstones_are_kept_in_snapshots() -> None:
    image = Image(metadata_version=3)
    image.apply(AccessChanged("acl", "k", 1, ACL))
    image.apply(AccessChanged("acl", "k", 2, None))
    assert Image.from_records(image.records(), 1, "", 1).access_to("acl", "k") == (2, None)


@pytest.mark.django_db
def test_a_deleted_entry_is_a_tombstone_row_and_can_be_created_again() -> None:
    one = access.put("quota", "k", {"x": 1}, actor="w")
    assert access.put("quota", "k", {"x": 1}, actor="w").generation == 1, "the same again changes nothing"
    assert access.put("quota", "k", None, actor="w").generation == 2
    assert access.put("quota", "k", {"x": 2}, actor="w", above=7).generation == 8
    assert [r.pk for r in access.waiting_entries()] == [one.pk]


@pytest.mark.django_db
def test_an_acl_of_the_console_is_applied_and_an_acl_of_a_client_is_shown() -> None:
    acls.create_acl(**ACL, actor="me")
    (row,) = access.waiting_entries()
    assert (row.kind, row.value, row.generation) == ("acl", ACL, 1)
    acls.delete_acl(Acl.objects.get().pk, actor="me")
    assert AccessEntry.objects.get().value is None
    other = {**ACL, "operation": "write"}
    access.put("acl", access.acl_key(other), other, actor="User:b at broker 1")
    assert Acl.objects.get().operation == "write"
    access.put("acl", access.acl_key(other), None, actor="User:b at broker 1")
    assert not Acl.objects.exists()


@pytest.mark.django_db
def test_the_database_thread_sends_rows_that_the_log_lacks_and_marks_applied_ones() -> None:
    thread, image = DatabaseThread(), Image(metadata_version=3)
    thread.image = image
    row = access.put("quota", "k", {"x": 1}, actor="w")
    assert thread._access(1) == (DesiredAccess("quota", "k", 1, {"x": 1}),)
    image.apply(AccessChanged("quota", "k", 1, {"x": 1}))
    assert thread._access(1) == ()
    row.refresh_from_db()
    assert (row.waiting, row.applied_generation) == (False, 1)


@pytest.mark.django_db
def test_a_password_is_stored_only_as_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("open sesame\n"))
    call_command("set_password", "alice", stdout=io.StringIO())
    rows = {r.key: r.value for r in AccessEntry.objects.all()}
    assert set(rows) == {"SCRAM-SHA-256:alice", "SCRAM-SHA-512:alice"}
    for key, value in rows.items():
        assert value is not None
        assert scram.password_fits(key.partition(":")[0], "open sesame", scram.Credential.from_json(value))
        assert "sesame" not in str(value)
    reported = [(c.before, c.after, c.comment, c.detail) for c in Change.objects.all()]
    assert len(reported) == 2
    assert all(before is None and after is None for before, after, _, _ in reported), (
        "not even the keys are in the history"
    )


@pytest.mark.django_db
def test_a_new_log_gets_all_rows_and_a_new_database_imports_the_log() -> None:
    thread, image = DatabaseThread(), Image(cluster_id="c", metadata_version=3)
    thread.image = image
    acls.create_acl(**ACL, actor="me")
    row = AccessEntry.objects.get()
    access.mark_applied(row, 1)
    assert thread._access(1) == ()
    assert thread._access(1, everything=True) == (DesiredAccess("acl", row.key, 1, ACL),)
    image.apply(AccessChanged("acl", row.key, 5, ACL))
    AccessEntry.objects.all().delete()
    Acl.objects.all().delete()
    assert access.import_access(image, actor="import") == 1
    assert (AccessEntry.objects.get().generation, Acl.objects.get().operation) == (5, "read")
    assert access.import_access(image, actor="import") == 0


@pytest.mark.django_db
def test_a_client_request_is_a_row_before_it_is_sent_to_the_core() -> None:
    thread, posted = DatabaseThread(), []
    thread.image = Image(cluster_id="c", metadata_version=3)
    thread._post = posted.append
    item = {"name": access.acl_key(ACL), "kind": "acl", "value": ACL}
    thread._request(forwarded_request("r", 1, 1, "alter_access", {"topics": [item]}))
    assert posted == [DesiredRead(access=(DesiredAccess("acl", item["name"], 1, ACL, "r"),))]
    assert AccessEntry.objects.get().changed_by == "client at broker 1"


@pytest.mark.django_db
def test_changes_are_rejected_while_the_database_misses_entries_of_the_log() -> None:
    """Otherwise a new row would have one value and generation 1. It could replace the configs of generation 4, or be ignored because of them."""
    image = Image(metadata_version=3)
    image.apply(BrokerConfigChanged(-1, 4, {"num.partitions": "5"}))
    assert access.missing_count(image) == 1
    Cluster.objects.create(pk=1, access_missing=1)
    entity = {"user": "ann"}
    for change in (
        lambda: broker_configs.alter_configs(-1, {"log.retention.ms": "60000"}, actor="op"),
        lambda: quotas.set_quota(entity, {"producer_byte_rate": 1000.0}, actor="op"),
        lambda: users.create_user("ann", actor="op"),
        lambda: acls.create_acl(
            resource_type="topic",
            resource_name="a",
            principal="User:ann",
            operation="read",
            permission="allow",
            actor="op",
        ),
    ):
        with pytest.raises(Rejected, match="import_metadata"):
            change()
    assert not AccessEntry.objects.exists()
    access.import_access(image, actor="w")
    assert access.missing_count(image) == 0
    Cluster.objects.update(access_missing=0)
    broker_configs.alter_configs(-1, {"log.retention.ms": "60000"}, actor="op")
    row = AccessEntry.objects.get()
    assert (row.value, row.generation) == ({"num.partitions": "5", "log.retention.ms": "60000"}, 5)
