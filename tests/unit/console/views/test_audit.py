"""The audit log: filters, the export, and the difference that a change made."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from console.templatetags.weir import spaced
from console.views.audit import KINDS
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Change
from controlplane.models.change import Outcome
from controlplane.services.common import record
from tests.unit.controlplane.world import World
from weir_common.phrases import sentence


@pytest.fixture(autouse=True)
def two_changes(db: None) -> None:
    record("ann", "topic.create", "topic", "orders", after={"configs": {"a": "1"}}, outcome=Outcome.CONFIRMED)
    record("eve", "session.login", "session", "eve", outcome=Outcome.CONFIRMED)
    record("bob", "acl.create", "acl", "7", outcome=Outcome.REJECTED, detail="no such user")


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"orders", "acl.create", "session.login"}),
        ("outcome=refused", {"acl.create"}),
        ("kind=topic", {"orders"}),
        ("actor=ann", {"orders"}),
        ("q=orders", {"orders"}),
        ("kind=session", {"session.login"}),
        ("kind=connector", set()),
        ("kind=changes", {"orders", "acl.create"}),
        ("outcome=nonsense&kind=nonsense", {"orders", "acl.create", "session.login"}),
    ],
)
def test_changes_are_filtered(operator: Client, query: str, shown: set[str]) -> None:
    body = operator.get(f"/audit/?{query}").content.decode().partition("<tbody")[2]
    assert {word for word in ("orders", "acl.create", "session.login") if word in body} == shown


@pytest.mark.parametrize(("within", "shown"), [("15m", False), ("1h", False), ("24h", True), ("nonsense", True)])
def test_only_changes_of_the_last_time(
    operator: Client, monkeypatch: pytest.MonkeyPatch, within: str, shown: bool
) -> None:
    later = timezone.now() + timedelta(hours=2)
    monkeypatch.setattr("console.views.audit.timezone.now", lambda: later)
    body = operator.get(f"/audit/?within={within}").content.decode().partition("<tbody")[2]
    assert ("orders" in body) == shown


def test_the_filtered_changes_are_exported(operator: Client) -> None:
    response = operator.get("/audit/?format=csv&outcome=refused")
    text = b"".join(response.streaming_content).decode() if response.streaming else response.content.decode()  # type: ignore[attr-defined]
    assert "acl.create" in text and "topic.create" not in text


@pytest.mark.parametrize(("language", "label"), [("en", "Create topic"), ("zh-hans", "创建 Topic")])
def test_operations_have_labels_in_each_language(operator: Client, language: str, label: str) -> None:
    """A search finds the label and the code. The export has the code."""
    operator.cookies["weir_language"] = language
    for query in ("", label.upper(), "topic.create"):
        body = operator.get("/audit/", {"q": query}).content.decode().partition("<tbody")[2]
        assert re.search(f'<td title="topic.create"[^>]*>{label}</td>', body)
    assert "eve" not in body
    pk = Change.objects.get(actor="ann").pk
    assert f"{pk} · {label} <span" in operator.get(f"/audit/{pk}/").content.decode()
    assert label in operator.get("/").content.decode()
    response = operator.get("/audit/?format=csv")
    text = b"".join(response.streaming_content).decode() if response.streaming else response.content.decode()  # type: ignore[attr-defined]
    assert "topic.create" in text and label not in text


def test_one_change_is_shown_with_its_difference(operator: Client) -> None:
    pk = Change.objects.get(actor="ann").pk
    assert "configs.a" in operator.get(f"/audit/{pk}/").content.decode()


def test_a_change_without_a_response_says_what_to_do(operator: Client) -> None:
    change = Change.objects.create(verb="topic.alter", object_kind="topic", object_name="flights", actor="alice")
    address = f"/audit/{change.pk}/"
    assert "the change may have taken effect" not in operator.get(address).content.decode()
    Change.objects.filter(pk=change.pk).update(outcome="unknown")
    assert "the change may have taken effect" in operator.get(address).content.decode()


@pytest.mark.parametrize("address", ["/audit/", "/topics/orders/?tab=changes"])
def test_lists_of_changes_have_the_changed_values_without_further_queries(
    world: World, operator: Client, address: str
) -> None:
    world.topic("orders", (1, 2))
    operator.get(address)
    with CaptureQueriesContext(connection) as before:
        assert "retention.ms" not in operator.get(address).content.decode()
    for n in range(3):
        after = {"configs": {"retention.ms": str(n), "segment.ms": "7"}, "partitions": 6}
        values = {"before": {"configs": {"retention.ms": "604800000"}, "partitions": 3}, "after": after}
        record("ann", "topic.alter", "topic", "orders", **values, outcome=Outcome.CONFIRMED)
    with CaptureQueriesContext(connection) as read:
        page = " ".join(re.sub("<[^>]+>", "", operator.get(address).content.decode()).split())
    assert "retention.ms 604800000 → 2, segment.ms 7, +1 more" in page
    assert len(read) == len(before)


def test_every_kind_of_object_is_a_word_of_the_language() -> None:
    """Approval requests were called proposals, and seven kinds were English on Chinese pages."""
    with translation.override("zh-hans"):
        names = {kind: spaced(kind) for kind in KINDS}
    untranslated = {kind for kind, name in names.items() if name == kind.replace("_", " ")}
    assert untranslated <= {"acl", "schema"}, "names in Chinese, too"
    assert names["proposal"] == "审批请求" and spaced("proposal") == "approval request"


def test_details_are_in_the_language_of_the_page_and_reasons_from_elsewhere_unchanged(viewer: Client) -> None:
    detail = sentence("Broker {broker_id} copies {size}.", broker_id=3, size="2.0 GB")
    for text in (detail, "NOT_CONTROLLER"):
        record("ada", AuditOperation.REPLICA_LOG_DIR, "replica", "orders-1", outcome=Outcome.CONFIRMED, detail=text)
    newest = Change.objects.filter(verb=AuditOperation.REPLICA_LOG_DIR).order_by("pk")
    chinese = {"HTTP_ACCEPT_LANGUAGE": "zh-CN"}
    for address in ("/audit/", f"/audit/{newest[0].pk}/"):
        assert "Broker 3 复制 2.0 GB。" in viewer.get(address, **chinese).content.decode()
        assert "Broker 3 copies 2.0 GB." in viewer.get(address).content.decode()
    assert 'lang="en" title="NOT_CONTROLLER"' in viewer.get("/audit/", **chinese).content.decode()
