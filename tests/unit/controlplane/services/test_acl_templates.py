"""ACLs of a template as rows: only missing ones are created, all or none."""

from __future__ import annotations

import pytest

from controlplane.domain.acl_templates import AclTemplate, TemplateField
from controlplane.models import Acl, Change
from controlplane.services import Rejected, acl_templates, acls

pytestmark = pytest.mark.django_db
VALUES = {TemplateField.TOPIC: "orders", TemplateField.GROUP: "billing"}


def test_only_missing_acls_are_created_and_each_is_in_the_audit_log() -> None:
    acls.create_acl(
        resource_type="group",
        resource_name="billing",
        principal="User:a",
        operation="read",
        permission="allow",
        actor="bob",
    )
    preview = acl_templates.preview_template(AclTemplate.CONSUMER, VALUES, principal="User:a")
    assert [a.exists for a in preview] == [False, False, True]
    assert Acl.objects.count() == 1
    done = acl_templates.apply_template(AclTemplate.CONSUMER, VALUES, principal="User:a", actor="bob", comment="new")
    assert done == preview
    assert Acl.objects.count() == 3
    changes = Change.objects.filter(comment="new").values_list("verb", "object_name")
    assert sorted(changes) == [("acl.create", "topic:orders")] * 2, "one change for each ACL, with its resource"
    again = acl_templates.apply_template(AclTemplate.CONSUMER, VALUES, principal="User:a", actor="bob")
    assert all(a.exists for a in again) and Acl.objects.count() == 3


def test_a_missing_value_names_its_field_and_creates_nothing() -> None:
    with pytest.raises(Rejected) as rejection:
        acl_templates.apply_template(
            AclTemplate.CONSUMER, {TemplateField.TOPIC: "orders"}, principal="User:a", actor="bob"
        )
    assert rejection.value.field == "group"
    with pytest.raises(Rejected) as rejection:
        acl_templates.apply_template(AclTemplate.CONSUMER, VALUES, principal="alice", actor="bob")
    assert rejection.value.field == "principal"
    assert not Acl.objects.exists()
