"""Changes of the schema registry by an operator: check, register, soft deletion.

Invariants: an audit row is written before the request and gets its outcome afterwards: the registry may carry out a request whose response is lost. If the
registry rejects a request, its message is shown unchanged. Does not contain: reading (`controlplane.selectors.schema_subjects`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from controlplane.clients import schema_subjects as subjects
from controlplane.clients.schema_subjects import NewSchema as NewSchema
from controlplane.clients.schema_subjects import SchemaReference as SchemaReference
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.errors import Rejected
from controlplane.models.change import Outcome
from controlplane.selectors.schema_subjects import required_registry
from controlplane.services.common import finish_changes, needs_reason, record, recorded_rejections
from weir_common.phrases import reason_of, sentence
from weir_common.schema_formats import RegistryUnreachable, SchemaUnavailable
from weir_common.schema_formats import SchemaType as SchemaType
from weir_common.schema_registry import RegistryRejected, SchemaUnknown

SUBJECT_CHARS_MAX = 1_000
"""Characters of a subject: a topic has at most 249, and strategies put a name of a record behind it."""

DEFINITION_CHARS_MAX = 1_000_000
"""Maximum number of characters of a definition. Registries have a limit of the same order."""

VERSION_DIGITS_MAX = 9
"""Maximum number of digits of a version number, which has 32 bits."""

T = TypeVar("T")
UNKNOWN_OUTCOME = sentence("The registry may have carried it out. Look at the subject before you try again.")


@dataclass(frozen=True, slots=True)
class CompatibilityCheck:
    """`reasons`: the incompatible parts, in the words of the registry."""

    subject: str
    compatible: bool
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """The version of a subject that has the schema. `id`: of the schema in the registry."""

    subject: str
    version: int
    id: int


def new_schema(kind: str, definition: str, references: str) -> NewSchema:
    """A schema of typed text. `references`: a line each, with name, subject and version. Raises Rejected."""
    found = []
    for line in filter(str.strip, references.splitlines()):
        parts = line.split()
        if len(parts) != 3 or not parts[2].isdecimal() or len(parts[2]) > VERSION_DIGITS_MAX:
            raise Rejected(
                sentence("{line} is not a reference. Give name, subject and version.", line=repr(line.strip()[:100])),
                "references",
            )
        found.append(SchemaReference(parts[0], parts[1], int(parts[2])))
    return NewSchema(SchemaType(kind), definition, tuple(found))


def check_schema(subject: str, schema: NewSchema) -> CompatibilityCheck:
    """Return whether the subject would accept the schema, by its compatibility level and its latest version. Changes nothing. Raises Rejected."""
    _check_input(subject, schema)
    client = required_registry()
    try:
        compatible, reasons = subjects.incompatibilities(client, subject, schema)
    except RegistryRejected as error:
        raise Rejected(reason_of(error), "definition") from None
    except SchemaUnavailable as error:
        raise Rejected(reason_of(error)) from None
    return CompatibilityCheck(subject, compatible, reasons)


def register_schema(subject: str, schema: NewSchema, *, actor: str, comment: str) -> RegisteredSchema:
    """Register a schema as the next version of the subject, or find it among its versions. Raises Rejected."""
    requested = {"type": schema.type.value, "references": len(schema.references), "characters": len(schema.definition)}
    with recorded_rejections(
        actor, AuditOperation.SCHEMA_REGISTER, "schema", subject, comment=comment, after=requested
    ):
        needs_reason(comment)
        _check_input(subject, schema)
        client = required_registry()

    def send() -> RegisteredSchema:
        schema_id = subjects.register(client, subject, schema)
        latest = subjects.version(client, subject)
        return RegisteredSchema(subject, latest.version, schema_id)

    return _send_audited(AuditOperation.SCHEMA_REGISTER, subject, requested, actor, comment, send, "definition")


def delete_subject(subject: str, *, actor: str, comment: str) -> None:
    """Soft deletion: consumers can still read records by the IDs of the subject's schemas. Raises Rejected."""
    with recorded_rejections(actor, AuditOperation.SCHEMA_DELETE, "schema", subject, comment=comment):
        needs_reason(comment)
        client = required_registry()
    _send_audited(
        AuditOperation.SCHEMA_DELETE, subject, None, actor, comment, lambda: subjects.delete_subject(client, subject)
    )


def delete_version(subject: str, version: int, *, actor: str, comment: str) -> None:
    """Soft deletion, like `delete_subject`. Raises Rejected."""
    requested = {"version": version}
    with recorded_rejections(actor, AuditOperation.SCHEMA_DELETE, "schema", subject, comment=comment, after=requested):
        needs_reason(comment)
        client = required_registry()
    _send_audited(
        AuditOperation.SCHEMA_DELETE,
        subject,
        requested,
        actor,
        comment,
        lambda: subjects.delete_version(client, subject, version),
    )


def _check_input(subject: str, schema: NewSchema) -> None:
    if not subject.strip() or len(subject) > SUBJECT_CHARS_MAX:
        raise Rejected(sentence("A subject has 1 to {max} characters.", max=f"{SUBJECT_CHARS_MAX:,}"), "subject")
    if not schema.definition.strip() or len(schema.definition) > DEFINITION_CHARS_MAX:
        raise Rejected(
            sentence("A definition has 1 to {max} characters.", max=f"{DEFINITION_CHARS_MAX:,}"), "definition"
        )


def _send_audited(
    verb: AuditOperation,
    subject: str,
    requested: object,
    actor: str,
    comment: str,
    send: Callable[[], T],
    field: str = "",
) -> T:
    object_id = f"schema-{uuid.uuid4().hex}"
    record(actor, verb, "schema", subject[:255], comment=comment, after=requested, object_id=object_id)
    try:
        result = send()
    except (RegistryRejected, SchemaUnknown) as error:
        finish_changes(object_id, None, Outcome.REJECTED, reason_of(error))
        raise Rejected(reason_of(error), field) from None
    except RegistryUnreachable as error:
        detail = sentence("{detail} {advice}", detail=error, advice=UNKNOWN_OUTCOME)
        finish_changes(object_id, None, Outcome.UNKNOWN, detail)
        raise Rejected(detail) from None
    except SchemaUnavailable as error:
        finish_changes(object_id, None, Outcome.UNKNOWN, reason_of(error))
        raise Rejected(reason_of(error)) from None
    finish_changes(object_id, None, Outcome.CONFIRMED, "")
    return result
