"""Typed keys and values of produced records as bytes: formats without a schema, and schemas of the registry.

Invariants: only a value whose format is SCHEMA_FORMAT causes a request to a registry. Does not contain: the encodings (`controlplane.domain.schema_encoding`),
the permission to produce (`controlplane.services.produce`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from controlplane.clients.json_schema_checks import encode_limited
from controlplane.clients.schema_registry import registry
from controlplane.domain.errors import Rejected
from controlplane.domain.produce import SCHEMA_FORMAT, InputFormat, decode_input
from controlplane.domain.protobuf_encoding import UnknownMessage
from controlplane.domain.schema_encoding import encode_with_schema
from controlplane.domain.schema_samples import sample_text
from weir_common.phrases import reason_of, sentence
from weir_common.schema_formats import RegistryUnreachable, Schema, SchemaType, SchemaUnavailable

NO_REGISTRY = "No schema registry is configured (WEIR_SCHEMA_REGISTRY_URL)."
UNREACHABLE_ADVICE = sentence("Check the registry and WEIR_SCHEMA_REGISTRY_URL, or produce with another format.")


class RecordPart(StrEnum):
    KEY = "key"
    VALUE = "value"

    @property
    def is_key(self) -> bool:
        return self is RecordPart.KEY


@dataclass(frozen=True, slots=True)
class SchemaChoice:
    """Reference to a schema of the registry. `subject` "": the subject of the topic (TopicNameStrategy). `version` None: the latest version. `message`: name
    of the message in a Protobuf schema, "" for the first message of its file."""

    subject: str = ""
    version: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class SchemaHelp:
    """Help for a person who writes a value. `definition`: "" for Protobuf, which the registry returns without its text here. `sample`: a value to start
    with."""

    subject: str
    id: int
    type: SchemaType
    definition: str
    sample: str


def has_registry() -> bool:
    return registry() is not None


def subject_of(topic: str, part: RecordPart) -> str:
    """The subject by TopicNameStrategy, the default of Confluent's serializers."""
    return f"{topic}-{part}"


def encode(topic: str, part: RecordPart, text: str, format_name: str, choice: SchemaChoice) -> bytes:
    """The bytes of a typed key or value. Raises Rejected with the field, MisfitValue with all faults that were found."""
    if format_name != SCHEMA_FORMAT:
        return decode_input(text, InputFormat(format_name), part)
    _, schema = _schema(topic, part, choice)
    try:
        return encode_with_schema(schema, text, part, choice.message, json_encoder=encode_limited)
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error), f"{part}_subject") from None


def schema_help(topic: str, part: RecordPart, choice: SchemaChoice) -> SchemaHelp:
    """The schema and a sample value. Raises Rejected with the field."""
    subject, schema = _schema(topic, part, choice)
    try:
        sample = sample_text(schema, choice.message)
    except UnknownMessage as error:
        raise Rejected(reason_of(error), f"{part}_message") from None
    except (SchemaUnavailable, RecursionError) as error:
        raise Rejected(reason_of(error), f"{part}_subject") from None
    definition = "" if schema.type is SchemaType.PROTOBUF else schema.text
    return SchemaHelp(subject, schema.id, schema.type, definition, sample)


def _schema(topic: str, part: RecordPart, choice: SchemaChoice) -> tuple[str, Schema]:
    if (schemas := registry()) is None:
        raise Rejected(NO_REGISTRY, f"{part}_format")
    subject = choice.subject or subject_of(topic, part)
    try:
        return subject, schemas.fetch_schema(subject, choice.version)
    except RegistryUnreachable as error:
        raise Rejected(sentence("{detail} {advice}", detail=error, advice=UNREACHABLE_ADVICE)) from None
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error), f"{part}_subject") from None
