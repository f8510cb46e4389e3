"""Bindings of each ACL template, and the values it needs."""

from __future__ import annotations

import pytest

from controlplane.domain.access import AclOperation, AclPattern, AclResource
from controlplane.domain.acl_templates import TEMPLATES, AclTemplate, MissingValue, TemplateField, bindings

VALUES = {
    TemplateField.TOPIC: "orders",
    TemplateField.GROUP: "billing",
    TemplateField.TRANSACTIONAL_ID: "pay-1",
    TemplateField.APPLICATION_ID: "enrich",
    TemplateField.NAME_PREFIX: "checkout.",
}


def texts(template: AclTemplate, pattern: AclPattern = AclPattern.LITERAL) -> set[str]:
    return {
        f"{b.resource_type}:{b.resource_name}:{b.pattern_type}:{b.operation}"
        for b in bindings(template, VALUES, pattern)
    }


def test_a_consumer_reads_the_topic_and_the_group() -> None:
    assert texts(AclTemplate.CONSUMER, AclPattern.PREFIXED) == {
        "topic:orders:prefixed:read",
        "topic:orders:prefixed:describe",
        "group:billing:prefixed:read",
    }


def test_a_transactional_producer_has_the_acls_of_a_producer() -> None:
    more = texts(AclTemplate.TRANSACTIONAL_PRODUCER) - texts(AclTemplate.PRODUCER)
    assert more == {"transactional_id:pay-1:literal:write", "transactional_id:pay-1:literal:describe"}
    assert texts(AclTemplate.PRODUCER) < texts(AclTemplate.TRANSACTIONAL_PRODUCER)


def test_streams_owns_everything_that_begins_with_its_id() -> None:
    found = bindings(AclTemplate.STREAMS, VALUES)
    assert {b.pattern_type for b in found} == {AclPattern.PREFIXED}
    assert {b.resource_name for b in found} == {"enrich"}


def test_the_owner_of_a_prefix_has_topics_groups_and_transactions_with_it() -> None:
    assert texts(AclTemplate.PREFIX_OWNER) == {
        "topic:checkout.:prefixed:all",
        "group:checkout.:prefixed:all",
        "transactional_id:checkout.:prefixed:write",
        "transactional_id:checkout.:prefixed:describe",
    }


def test_monitoring_reads_no_records() -> None:
    operations = {b.operation for b in bindings(AclTemplate.MONITORING, {})}
    assert operations == {AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS}


@pytest.mark.parametrize("template", AclTemplate)
def test_each_field_of_a_template_is_needed_and_used(template: AclTemplate) -> None:
    for field in TEMPLATES[template].fields:
        with pytest.raises(MissingValue) as missing:
            bindings(template, {**VALUES, field: ""})
        assert missing.value.field is field
        assert VALUES[field] in {b.resource_name for b in bindings(template, VALUES)}
    assert len(texts(template)) == len(bindings(template, VALUES))


def test_the_cluster_has_its_name_of_kafka() -> None:
    found = bindings(AclTemplate.MONITORING, {})
    assert {b.resource_name for b in found if b.resource_type is AclResource.CLUSTER} == {"kafka-cluster"}
