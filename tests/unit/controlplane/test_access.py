"""ACLs, credentials and quotas from row to log: by generation, never backwards, and no password anywhere."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from brokerd.access import scram
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, BrokerConfigChanged, RequestAnswered
from brokerd.cluster.model import Now
from brokerd.cluster.znodes import ForwardedRequest
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
from controlplane.models import AccessEntry, Acl, Change
from controlplane.services import access, acls

NOW = Now(1, 1)
ACL = {
    "resource_type": "topic", "pattern_type": "literal", "resource_name": "t", "principal": "User:a", "host": "*",
    "operation": "read", "permission": "allow",
}  # fmt: skip


def acting() -> tuple[Core, Image]:
    image = Image(cluster_id="c", metadata_version=3)
    core = Core(image, str(uuid4()))
    core.handle(Elected(1), NOW)
    core.handle(BrokersSeen({}), NOW)
    core.in_flight = False
    return core, image


def written(effects: list[Any]) -> list[Any]:
    return [r for e in effects if isinstance(e, AppendMetadata) for r in e.records]


def test_the_log_takes_a_newer_generation_only() -> None:
    core, image = acting()
    image.apply(AccessChanged("acl", "k", 3, ACL))
    assert not [r for r in written(core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 3, ACL),)), NOW)) if isinstance(r, AccessChanged)]  # fmt: skip
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 2, None),)), NOW)
    assert [e.kind for e in effects if isinstance(e, Report)] == ["drift"]
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("acl", "k", 4, None),)), NOW)
    assert written(effects)[-1] == AccessChanged("acl", "k", 4, None)


def test_a_request_is_answered_in_the_entry_of_its_effect() -> None:
    core, _ = acting()
    item = {"name": "SCRAM-SHA-256:a", "kind": "scram", "value": {"iterations": 4096}}
    core.handle(Requested(ForwardedRequest("r", 1, 1, "alter_access", {"topics": [item]})), NOW)
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("scram", item["name"], 1, item["value"], "r"),)), NOW)
    changed, answered = written(effects)[-2:]
    assert changed == AccessChanged("scram", "SCRAM-SHA-256:a", 1, {"iterations": 4096})
    assert isinstance(answered, RequestAnswered)
    assert answered.result["results"][0]["error"] == 0


def settings(name: str, **values: str | None) -> dict[str, Any]:
    configs = [{"name": n, "op": "delete" if v is None else "set", "value": v} for n, v in values.items()]
    return {"name": name, "configs": configs}


def test_a_brokers_settings_are_carried_by_a_record_of_their_own() -> None:
    core, image = acting()
    item = settings("", threads="5")
    effects = core.handle(Requested(ForwardedRequest("r", 1, 1, "alter_broker_configs", {"topics": [item]})), NOW)
    assert [e.request.payload["topics"] for e in effects if isinstance(e, WriteDesired)] == [[item]]
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("broker", "-1", 1, {"threads": "5"}, "r"),)), NOW)
    changed, answered = written(effects)[-2:]
    assert changed == BrokerConfigChanged(-1, 1, {"threads": "5"})
    assert answered.result["results"][0]["error"] == 0
    image.apply(changed)
    core.in_flight = False
    effects = core.handle(DesiredRead(access=(DesiredAccess("broker", "-1", 0, {}),)), NOW)
    assert [e.kind for e in effects if isinstance(e, Report)] == ["drift"]


@pytest.mark.parametrize(
    "item", [settings("one", a="1"), settings("7", a="1"), {"name": "", "configs": [{"name": "a", "op": "append"}]}]
)
def test_settings_of_what_is_no_broker_are_refused(item: dict[str, Any]) -> None:
    core, _ = acting()
    effects = core.handle(Requested(ForwardedRequest("r", 1, 1, "alter_broker_configs", {"topics": [item]})), NOW)
    (answer,) = [r for r in written(effects) if isinstance(r, RequestAnswered)]
    assert answer.result["results"][0]["error"] == 42


@pytest.mark.django_db
def test_of_two_changes_of_a_brokers_settings_neither_takes_the_others_back() -> None:
    posted: list[Any] = []
    thread, image = DatabaseThread(), Image(metadata_version=3)
    thread.image, thread._post = image, posted.append
    image.apply(BrokerConfigChanged(1, 4, {"held": "0", "gone": "0"}))
    for number, item in enumerate((settings("1", a="1", gone=None), settings("1", b="2"))):
        payload = {"topics": [item], "principal": "User:ann"}
        thread._handle(ForwardedRequest(f"r{number}", 1, 1, "alter_broker_configs", payload))
    assert [(a.kind, a.key, a.generation, a.value) for answer in posted for a in answer.access] == [
        ("broker", "1", 5, {"held": "0", "a": "1"}), ("broker", "1", 6, {"held": "0", "a": "1", "b": "2"}),
    ]  # fmt: skip
    assert [(c.who, c.verb, c.object_name) for c in Change.objects.all()] == [
        ("User:ann at broker 1", "broker.set", "1")
    ] * 2


@pytest.mark.django_db
def test_brokers_settings_come_back_from_the_log_into_an_empty_database() -> None:
    image = Image(metadata_version=3)
    image.apply(BrokerConfigChanged(-1, 4, {"num.partitions": "5"}))
    assert access.import_access(image, who="w") == 1
    row = AccessEntry.objects.get()
    assert (row.kind, row.key, row.value, row.generation, row.waiting) == (
        "broker", "-1", {"num.partitions": "5"}, 4, False,
    )  # fmt: skip
    assert access.import_access(image, who="w") == 0


def test_what_is_deleted_stays_known_over_snapshots() -> None:
    image = Image(metadata_version=3)
    image.apply(AccessChanged("acl", "k", 1, ACL))
    image.apply(AccessChanged("acl", "k", 2, None))
    assert Image.from_records(image.records(), 1, "", 1).access_to("acl", "k") == (2, None)


@pytest.mark.django_db
def test_a_deleted_entry_is_a_row_that_says_so_and_comes_back_above_it() -> None:
    one = access.put("quota", "k", {"x": 1}, who="w")
    assert access.put("quota", "k", {"x": 1}, who="w").generation == 1, "the same again changes nothing"
    assert access.put("quota", "k", None, who="w").generation == 2
    assert access.put("quota", "k", {"x": 2}, who="w", above=7).generation == 8
    assert [r.pk for r in access.waiting()] == [one.pk]


@pytest.mark.django_db
def test_an_acl_of_the_console_is_carried_and_one_of_a_client_is_shown() -> None:
    acls.create_acl(**ACL, who="me")
    (row,) = access.waiting()
    assert (row.kind, row.value, row.generation) == ("acl", ACL, 1)
    acls.delete_acl(Acl.objects.get().pk, who="me")
    assert AccessEntry.objects.get().value is None
    other = {**ACL, "operation": "write"}
    access.put("acl", access.acl_key(other), other, who="User:b at broker 1")
    assert Acl.objects.get().operation == "write"
    access.put("acl", access.acl_key(other), None, who="User:b at broker 1")
    assert not Acl.objects.exists()


@pytest.mark.django_db
def test_the_database_thread_hands_over_what_the_log_lacks_and_marks_what_it_has() -> None:
    thread, image = DatabaseThread(), Image(metadata_version=3)
    thread.image = image
    row = access.put("quota", "k", {"x": 1}, who="w")
    assert thread._access(1) == (DesiredAccess("quota", "k", 1, {"x": 1}),)
    image.apply(AccessChanged("quota", "k", 1, {"x": 1}))
    assert thread._access(1) == ()
    row.refresh_from_db()
    assert (row.waiting, row.applied_generation) == (False, 1)


@pytest.mark.django_db
def test_a_password_becomes_keys_and_is_kept_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("open sesame\n"))
    call_command("set_password", "alice", stdout=io.StringIO())
    rows = {r.key: r.value for r in AccessEntry.objects.all()}
    assert set(rows) == {"SCRAM-SHA-256:alice", "SCRAM-SHA-512:alice"}
    for key, value in rows.items():
        assert value is not None
        assert scram.password_fits(key.partition(":")[0], "open sesame", scram.Credential.from_json(value))
        assert "sesame" not in str(value)
    told = [(c.before, c.after, c.why, c.detail) for c in Change.objects.all()]
    assert len(told) == 2
    assert all(before is None and after is None for before, after, _, _ in told), "not even the keys are in the history"


@pytest.mark.django_db
def test_a_new_log_is_told_everything_again_and_a_new_database_imports_what_the_log_holds() -> None:
    thread, image = DatabaseThread(), Image(cluster_id="c", metadata_version=3)
    thread.image = image
    acls.create_acl(**ACL, who="me")
    row = AccessEntry.objects.get()
    access.mark_applied(row, 1)
    assert thread._access(1) == ()
    assert thread._access(1, everything=True) == (DesiredAccess("acl", row.key, 1, ACL),)
    image.apply(AccessChanged("acl", row.key, 5, ACL))
    AccessEntry.objects.all().delete()
    Acl.objects.all().delete()
    assert access.import_access(image, who="import") == 1
    assert (AccessEntry.objects.get().generation, Acl.objects.get().operation) == (5, "read")
    assert access.import_access(image, who="import") == 0


@pytest.mark.django_db
def test_what_a_client_asks_for_is_a_row_before_it_is_a_wish() -> None:
    thread, posted = DatabaseThread(), []
    thread.image = Image(cluster_id="c", metadata_version=3)
    thread._post = posted.append
    item = {"name": access.acl_key(ACL), "kind": "acl", "value": ACL}
    thread._request(ForwardedRequest("r", 1, 1, "alter_access", {"topics": [item]}))
    assert posted == [DesiredRead(access=(DesiredAccess("acl", item["name"], 1, ACL, "r"),))]
    assert AccessEntry.objects.get().changed_by == "client at broker 1"
