"""ACL templates: the ACL bindings that a client needs to produce, to consume or to run Kafka Streams.

Source: the options `--producer`, `--idempotent`, `--transactional-id` and `--consumer` of Kafka's kafka-acls.sh, and the documented requirements of Kafka
Streams. Pure. Does not contain: which bindings exist (`controlplane.services.acls`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.access import AclOperation, AclPattern, AclResource

CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""
ALL = "*"


class AclTemplate(StrEnum):
    PRODUCER = "producer"
    TRANSACTIONAL_PRODUCER = "transactional_producer"
    CONSUMER = "consumer"
    STREAMS = "streams"
    MONITORING = "monitoring"
    TOPIC_OWNER = "topic_owner"
    PREFIX_OWNER = "prefix_owner"


class TemplateField(StrEnum):
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional_id"
    APPLICATION_ID = "application_id"
    NAME_PREFIX = "name_prefix"


@dataclass(frozen=True, slots=True)
class TemplateInfo:
    """`doc` says what the client may do with the bindings. `fields` are the values that the template needs."""

    template: AclTemplate
    doc: str
    fields: tuple[TemplateField, ...]


TEMPLATES: Mapping[AclTemplate, TemplateInfo] = {
    info.template: info
    for info in (
        TemplateInfo(
            AclTemplate.PRODUCER, "Produce to the topic, also as an idempotent producer.", (TemplateField.TOPIC,)
        ),
        TemplateInfo(
            AclTemplate.TRANSACTIONAL_PRODUCER,
            "Produce to the topic in transactions of the transactional id.",
            (TemplateField.TOPIC, TemplateField.TRANSACTIONAL_ID),
        ),
        TemplateInfo(
            AclTemplate.CONSUMER,
            "Consume the topic as a member of the group, and commit its offsets.",
            (TemplateField.TOPIC, TemplateField.GROUP),
        ),
        TemplateInfo(
            AclTemplate.STREAMS,
            "Run a Kafka Streams application: its group, its internal topics and its transactions. Its input and output topics need a consumer's and a producer's ACLs.",
            (TemplateField.APPLICATION_ID,),
        ),
        TemplateInfo(
            AclTemplate.MONITORING,
            "Describe the cluster, all topics with their configs, and all groups. No records.",
            (),
        ),
        TemplateInfo(
            AclTemplate.TOPIC_OWNER,
            "Create, alter and delete the topic and its configs, delete its records.",
            (TemplateField.TOPIC,),
        ),
        TemplateInfo(
            AclTemplate.PREFIX_OWNER,
            "All operations on topics and groups whose names begin with the prefix, and transactions with such ids. For a team that owns a prefix.",
            (TemplateField.NAME_PREFIX,),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL that allows an operation."""

    resource_type: AclResource
    resource_name: str
    pattern_type: AclPattern
    operation: AclOperation


class MissingValue(Exception):
    """The template needs the value of `field`."""

    def __init__(self, template: AclTemplate, field: TemplateField) -> None:
        super().__init__(f"The template {template} needs a {field.replace('_', ' ')}.")
        self.field = field


def bindings(
    template: AclTemplate, values: Mapping[TemplateField, str], pattern_type: AclPattern = AclPattern.LITERAL
) -> list[AclBinding]:
    """The bindings of a template. `pattern_type` applies to the given names. Raises MissingValue."""
    for field in TEMPLATES[template].fields:
        if not values.get(field):
            raise MissingValue(template, field)
    return list(_bindings(template, values, pattern_type))


def _bindings(
    template: AclTemplate, values: Mapping[TemplateField, str], pattern_type: AclPattern
) -> Iterator[AclBinding]:
    def bindings_for(
        kind: AclResource, name: str, pattern: AclPattern, *operations: AclOperation
    ) -> Iterator[AclBinding]:
        return (AclBinding(kind, name, pattern, operation) for operation in operations)

    def all_with_prefix(name: str) -> Iterator[AclBinding]:
        prefixed = AclPattern.PREFIXED
        yield from bindings_for(AclResource.TOPIC, name, prefixed, AclOperation.ALL)
        yield from bindings_for(AclResource.GROUP, name, prefixed, AclOperation.ALL)
        yield from bindings_for(AclResource.TRANSACTIONAL_ID, name, prefixed, AclOperation.WRITE, AclOperation.DESCRIBE)

    match template:
        case AclTemplate.PRODUCER | AclTemplate.TRANSACTIONAL_PRODUCER:
            # WRITE on a topic allows idempotent producers too (KIP-679).
            yield from bindings_for(
                AclResource.TOPIC, values[TemplateField.TOPIC], pattern_type, AclOperation.WRITE, AclOperation.DESCRIBE
            )
            if template is AclTemplate.TRANSACTIONAL_PRODUCER:
                name = values[TemplateField.TRANSACTIONAL_ID]
                yield from bindings_for(
                    AclResource.TRANSACTIONAL_ID, name, pattern_type, AclOperation.WRITE, AclOperation.DESCRIBE
                )
        case AclTemplate.CONSUMER:
            yield from bindings_for(
                AclResource.TOPIC, values[TemplateField.TOPIC], pattern_type, AclOperation.READ, AclOperation.DESCRIBE
            )
            yield from bindings_for(AclResource.GROUP, values[TemplateField.GROUP], pattern_type, AclOperation.READ)
        case AclTemplate.STREAMS:
            # The names of internal topics and of transactional ids begin with the application id.
            yield from all_with_prefix(values[TemplateField.APPLICATION_ID])
        case AclTemplate.MONITORING:
            literal = AclPattern.LITERAL
            yield from bindings_for(
                AclResource.CLUSTER, CLUSTER_NAME, literal, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
            )
            yield from bindings_for(
                AclResource.TOPIC, ALL, literal, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS
            )
            yield from bindings_for(AclResource.GROUP, ALL, literal, AclOperation.DESCRIBE)
        case AclTemplate.TOPIC_OWNER:
            yield from bindings_for(
                AclResource.TOPIC,
                values[TemplateField.TOPIC],
                pattern_type,
                AclOperation.CREATE,
                AclOperation.DELETE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.ALTER_CONFIGS,
                AclOperation.DESCRIBE_CONFIGS,
            )
        case AclTemplate.PREFIX_OWNER:
            yield from all_with_prefix(values[TemplateField.NAME_PREFIX])
