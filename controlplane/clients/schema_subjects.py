"""Subjects of the schema registry: names, versions, compatibility, and their changes.

Invariants: each call is one request of the registry's client, with its limits of time and bytes. Does not contain: pages of subjects
(`controlplane.selectors.schema_subjects`), schemas by ID (`weir_common.schema_registry`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from weir_common.phrases import sentence
from weir_common.schema_formats import SchemaType, SchemaUnavailable
from weir_common.schema_registry import SchemaRegistryClient, SchemaUnknown, subject_path, subject_text


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses under `name`."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """`type`: as the registry names it. `definition`: as it was registered; source text for Protobuf."""

    subject: str
    version: int
    id: int
    type: str
    definition: str
    references: list[SchemaReference]


@dataclass(frozen=True, slots=True)
class NewSchema:
    """A schema that is checked or registered."""

    type: SchemaType
    definition: str
    references: Sequence[SchemaReference] = ()

    def body(self) -> dict[str, object]:
        references = [{"name": r.name, "subject": r.subject, "version": r.version} for r in self.references]
        return {"schema": self.definition, "schemaType": self.type.value, "references": references}


def subject_names(client: SchemaRegistryClient) -> list[str]:
    """All names, sorted. Raises SchemaUnavailable, as all functions here."""
    return sorted(str(name) for name in _list(client, "/subjects", sentence("list of subjects")))


def versions(client: SchemaRegistryClient, subject: str) -> list[int]:
    found = _list(client, f"{subject_path(subject)}/versions", subject_text(subject))
    return sorted(int(version) for version in found)


def version(client: SchemaRegistryClient, subject: str, number: int | None = None) -> SubjectVersion:
    """One version, None = the latest."""
    what = subject_text(subject, number)
    found = client.request("GET", f"{subject_path(subject)}/versions/{number or 'latest'}", what)
    try:
        references = [
            SchemaReference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in found.get("references") or []
        ]
        kind = str(found.get("schemaType") or SchemaType.AVRO)
        return SubjectVersion(subject, int(found["version"]), int(found["id"]), kind, str(found["schema"]), references)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _unknown_form(what) from None


def compatibility(client: SchemaRegistryClient, subject: str = "") -> str:
    """Return the compatibility level of this subject, or the default level of the registry if the subject has none."""
    if subject:
        try:
            return _level(
                client, f"/config/{quote(subject, safe='')}", sentence("level of subject {subject}", subject=subject)
            )
        except SchemaUnknown:
            pass
    return _level(client, "/config", sentence("compatibility level"))


def referencing_ids(client: SchemaRegistryClient, subject: str, number: int) -> list[int]:
    """IDs of the schemas that reference this version."""
    path = f"{subject_path(subject)}/versions/{number}/referencedby"
    return sorted(int(i) for i in _list(client, path, subject_text(subject, number)))


def incompatibilities(client: SchemaRegistryClient, subject: str, schema: NewSchema) -> tuple[bool, list[str]]:
    """(compatible, reasons) by the level of the subject. A subject that does not exist accepts every valid schema."""
    path = f"/compatibility{subject_path(subject)}/versions/latest?verbose=true"
    try:
        found = client.request("POST", path, subject_text(subject), schema.body())
    except SchemaUnknown:
        return True, []
    try:
        return bool(found["is_compatible"]), [str(m) for m in found.get("messages") or []]
    except (AttributeError, KeyError, TypeError):
        raise _unknown_form(subject_text(subject)) from None


def register(client: SchemaRegistryClient, subject: str, schema: NewSchema) -> int:
    """The ID of the schema. A schema that the subject has already gets no new version."""
    found = client.request("POST", f"{subject_path(subject)}/versions", subject_text(subject), schema.body())
    try:
        return int(found["id"])
    except (KeyError, TypeError, ValueError):
        raise _unknown_form(subject_text(subject)) from None


def delete_subject(client: SchemaRegistryClient, subject: str) -> None:
    """Soft: the schemas stay readable by their IDs."""
    client.request("DELETE", subject_path(subject), subject_text(subject))


def delete_version(client: SchemaRegistryClient, subject: str, number: int) -> None:
    """Soft, as `delete_subject`."""
    path = f"{subject_path(subject)}/versions/{number}"
    client.request("DELETE", path, subject_text(subject, number))


def _list(client: SchemaRegistryClient, path: str, what: str) -> list[Any]:
    found = client.request("GET", path, what)
    if not isinstance(found, list):
        raise _unknown_form(what)
    return found


def _level(client: SchemaRegistryClient, path: str, what: str) -> str:
    found = client.request("GET", path, what)
    if not isinstance(found, dict):
        raise _unknown_form(what)
    return str(found.get("compatibilityLevel") or found.get("compatibility") or "")


def _unknown_form(what: str) -> SchemaUnavailable:
    return SchemaUnavailable(sentence("The schema registry answered in an unknown form for {what}.", what=what))
