"""The current state as a document."""

from __future__ import annotations

import pytest

from controlplane.domain.cluster_document import InvalidDocument
from controlplane.models import Topic
from controlplane.selectors import cluster_documents as selectors
from tests.unit.controlplane.services.test_cluster_documents import apply_document, plan
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster() -> World:
    return World()


def test_an_export_is_a_document_without_a_difference() -> None:
    apply_document()
    exported = selectors.export()
    assert "owner" not in exported and plan(exported).steps == []
    assert [t["name"] for t in selectors.export(prefix="fl")["topics"]] == ["flights"]
    assert selectors.export(prefix="fl")["acls"] == [] and selectors.export(owner="ops")["topics"] == []
    assert plan(selectors.export(owner="payments")).steps == []


def test_front_topics_are_in_no_document() -> None:
    apply_document({"topics": [{"name": "orders", "configs": {"weir.delay.enable": True}}]})
    assert Topic.objects.filter(name="orders.delay").exists()
    assert [t["name"] for t in selectors.export()["topics"]] == ["orders"]
    with pytest.raises(InvalidDocument, match="follows topic orders"):
        plan({"topics": [{"name": "orders.delay"}]})
