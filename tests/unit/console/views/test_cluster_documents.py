"""The pages of cluster documents: compare, plan, apply, drift, export."""

from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from controlplane.models import AccessEntry, Change, DocumentPlan
from controlplane.services import quotas, topics
from tests.unit.controlplane.world import World
from weir_common.document_text import DOCUMENT_BYTES_MAX, read_document

COMPARE, PLAN_NEW = "/documents/compare/", "/documents/plans/new/"
DOCUMENT = """
owner: payments
topics:
- {name: orders, configs: {retention.ms: 1000}}
quotas:
- {entity: {user: billing}, limits: {producer_byte_rate: 1000}}
"""


@pytest.fixture(autouse=True)
def cluster(world: World) -> World:
    topics.create_topic("orders", partitions=3, replication_factor=3, actor="ada")
    return world


def digest_in(page: str) -> str:
    found = re.search(r'name="digest" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found.group(1)


def compare_document(client: Client, document: str = DOCUMENT, **more: str) -> str:
    page = client.post(COMPARE, {"document": document, **more})
    assert page.status_code == 200
    return page.content.decode()


def create_plan(client: Client, document: str = DOCUMENT) -> DocumentPlan:
    made = client.post(PLAN_NEW, {"document": document, "digest": digest_in(compare_document(client, document))})
    assert made.status_code == 302, made.content
    address = made.headers["Location"]
    digest = digest_in(client.get(address).content.decode())
    assert client.post(address, {"digest": digest, "comment": "deploy"}).status_code == 302
    return DocumentPlan.objects.latest("id")


def test_a_document_is_compared_applied_and_its_drift_is_shown(operator: Client) -> None:
    page = compare_document(operator)
    assert "configs.retention.ms" in page and "not set" in page and "Continue to apply" in page
    assert not DocumentPlan.objects.exists(), "a comparison stores nothing"
    row = create_plan(operator)
    assert row.applied_at is not None and row.applied_by == "alice"
    assert AccessEntry.objects.get(kind="quota").value == {"producer_byte_rate": 1000}
    assert Change.objects.get(verb="document.apply").comment == "deploy"
    drift = f"/documents/plans/{row.pk}/drift/"
    assert "The cluster matches the document" in operator.get(drift).content.decode()
    quotas.set_quota({"user": "billing"}, {"producer_byte_rate": 5.0}, actor="bob")
    page = operator.get(drift).content.decode()
    assert "The cluster differs" in page and "limits.producer_byte_rate" in page
    assert '<span class="old">5</span>' in page and "1000.0" not in page
    assert f'href="{drift}"' in operator.get("/documents/").content.decode()
    again = f"/documents/plans/{row.pk}/again/"
    assert f'action="{again}"' in page
    planned = operator.post(again)
    new = DocumentPlan.objects.latest("id")
    assert planned.headers["Location"] == f"/documents/plans/{new.pk}/apply/" and new.pk != row.pk
    page = operator.get(planned.headers["Location"]).content.decode()
    assert "Apply 1 step</button>" in page and '<span class="zero">0</span>' in page
    assert operator.post("/documents/plans/99/again/").status_code == 409


def test_an_application_names_its_deletions_and_loses_records_only_with_topics(operator: Client) -> None:
    create_plan(operator)
    for kept, loses in (("topics: [{name: orders}]", False), ("quotas: []", True)):
        document = f"{{owner: payments, {kept}}}"
        page = compare_document(operator, document, prune="on")
        made = operator.post(PLAN_NEW, {"document": document, "prune": "on", "digest": digest_in(page)})
        shown = operator.get(made.headers["Location"]).content.decode()
        assert "deletion" in shown.partition('<button type="submit" class="fatal')[2].partition("</button>")[0]
        assert ("A deleted topic loses its records." in shown) is loses


def test_an_application_needs_a_reason_and_the_number_of_deletions(operator: Client) -> None:
    create_plan(operator)
    document = "{owner: payments, topics: [{name: orders}]}"
    page = compare_document(operator, document, prune="on")
    made = operator.post(PLAN_NEW, {"document": document, "prune": "on", "digest": digest_in(page)})
    address = made.headers["Location"]
    given = {"digest": digest_in(operator.get(address).content.decode()), "comment": "", "confirm_name": "1"}
    assert operator.post(address, given).status_code == 409
    assert operator.post(address, {**given, "comment": "gone", "confirm_name": "2"}).status_code == 409
    assert AccessEntry.objects.get(kind="quota").value is not None
    assert operator.post(address, {**given, "comment": "gone"}).status_code == 302
    assert AccessEntry.objects.get(kind="quota").value is None


def test_a_rejected_document_is_shown_with_its_reasons_and_cannot_be_planned(operator: Client) -> None:
    document = "{topics: [{name: orders, partitions: 1}, {name: new}]}"
    page = compare_document(operator, document)
    assert "topics.0.partitions" in page and "cannot be reduced" in page
    assert "new" in page and "Continue to apply" not in page
    assert operator.post(PLAN_NEW, {"document": document, "digest": ""}).status_code == 409
    invalid = operator.post(COMPARE, {"document": "{topcs: [], acls: 3}"})
    assert invalid.status_code == 400
    assert (
        "Did you mean topics?" in invalid.content.decode()
        and "A list is needed, not a value of type" in invalid.content.decode()
    )
    broken = operator.post(COMPARE, {"document": "topics: []\ntopics: []\n"})
    assert broken.status_code == 400 and "line 2" in broken.content.decode()
    assert not DocumentPlan.objects.exists()


def test_what_changed_since_the_comparison_is_not_planned(operator: Client) -> None:
    digest = digest_in(compare_document(operator))
    topics.alter_topic("orders", set_configs={"retention.ms": "7"}, actor="bob")
    rejected = operator.post(PLAN_NEW, {"document": DOCUMENT, "digest": digest})
    assert rejected.status_code == 409 and "has changed since the comparison" in rejected.content.decode()
    assert not DocumentPlan.objects.exists()


def test_an_uploaded_file_replaces_the_text(operator: Client) -> None:
    file = SimpleUploadedFile("cluster.yaml", DOCUMENT.encode())
    page = operator.post(COMPARE, {"document": "x", "file": file})
    assert page.status_code == 200 and "limits.producer_byte_rate" in page.content.decode()
    for content, reason in ((b"\xff", "not UTF-8"), (b" " * (DOCUMENT_BYTES_MAX + 1), "Divide the document")):
        bad = operator.post(COMPARE, {"file": SimpleUploadedFile("cluster.yaml", content)})
        assert bad.status_code == 400 and reason in bad.content.decode()


def test_viewers_compare_and_export_but_apply_nothing(viewer: Client, operator: Client) -> None:
    assert "Continue to apply" in compare_document(viewer)
    assert (
        viewer.post(PLAN_NEW, {"document": DOCUMENT, "digest": digest_in(compare_document(viewer))}).status_code == 403
    )
    create_plan(operator)
    found = viewer.get("/documents/export/", {"owner": "payments"})
    assert found.headers["Content-Disposition"] == 'attachment; filename="cluster.yaml"'
    assert read_document(found.content.decode())["quotas"][0]["entity"] == {"user": "billing"}
    row = DocumentPlan.objects.get()
    assert viewer.get(f"/documents/plans/{row.pk}/").status_code == 200
    assert viewer.post(f"/documents/plans/{row.pk}/apply/", {"digest": row.digest, "comment": "x"}).status_code == 403
    assert viewer.get("/documents/plans/99/").status_code == 404
