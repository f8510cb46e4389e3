"""A cluster document: topics, ACLs, quotas, routes, users, broker configs and role bindings as one declarative object. The parser reports all faults together.

Invariants: a document contains no secret. Of a user it contains the name and the mechanisms; a password in it is a fault. `parse` either returns a document
whose resources are well-formed and named once each, or every fault with its path. A config or limit that a document does not name does not change; null removes
it.
Does not contain: the current state (`document_plan`), text (`weir_common.document_text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.domain.document_sections import (
    SECTION_READERS,
    DocumentFault,
    DocumentFaults,
    DocumentProblem,
    json_type,
    value_text,
)
from controlplane.domain.document_values import DocumentValues, ResourceId, ResourceKind
from weir_common.phrases import sentence

VERSION = 1
OWNER_LENGTH_MAX = 100
"""Maximum number of characters of an owner, which is a column of the table of managed resources."""
RESOURCES_MAX = 10_000
"""Maximum number of resources of one document. All of them are compared in one request."""
TOO_MANY = "At most {most} resources; divide the document."
SECTIONS = {
    "topics": ResourceKind.TOPIC,
    "acls": ResourceKind.ACL,
    "quotas": ResourceKind.QUOTA,
    "routes": ResourceKind.ROUTE,
    "users": ResourceKind.USER,
    "broker_configs": ResourceKind.BROKER_CONFIG,
    "role_bindings": ResourceKind.ROLE_BINDING,
}
"""{list of a document: the kind of its resources}"""
FIELDS = ("version", "owner", *SECTIONS)


class InvalidDocument(ValueError):
    """All faults of a document; at least one."""

    def __init__(self, problems: Iterable[DocumentProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{p.path}: {p.detail}" for p in self.problems[:5]))


@dataclass(frozen=True, slots=True)
class DocumentResource:
    """`desired`: the values of the document; their class belongs to the kind. `path`: where the document has it."""

    kind: ResourceKind
    key: str
    desired: DocumentValues
    path: str

    @property
    def id(self) -> ResourceId:
        return self.kind, self.key


@dataclass(frozen=True, slots=True)
class ClusterDocument:
    """`owner` is the owner of the resources. If it is empty, the document manages no resources, and `prune` deletes nothing."""

    owner: str
    resources: tuple[DocumentResource, ...]


SAME_RESOURCE = {
    ResourceKind.TOPIC: "{path} is the same topic.",
    ResourceKind.ACL: "{path} is the same acl.",
    ResourceKind.QUOTA: "{path} is the same quota.",
    ResourceKind.ROUTE: "{path} is the same route.",
    ResourceKind.USER: "{path} is the same user.",
    ResourceKind.BROKER_CONFIG: "{path} is the same broker_config.",
    ResourceKind.ROLE_BINDING: "{path} is the same role_binding.",
}


def parse(value: object) -> ClusterDocument:
    """The document in this JSON value. Raises InvalidDocument with every fault."""
    faults = DocumentFaults()
    if not isinstance(value, Mapping):
        detail = sentence("A document is an object, not a value of type {given}.", given=json_type(value))
        raise InvalidDocument([DocumentProblem("", DocumentFault.INVALID, detail)])
    faults.unknown("", value, FIELDS)
    if value.get("version", VERSION) != VERSION:
        faults.invalid(
            "version",
            sentence(
                "This server reads version {version}, not {given}.", version=VERSION, given=value_text(value["version"])
            ),
        )
    owner = value.get("owner", "")
    if not isinstance(owner, str) or len(owner) > OWNER_LENGTH_MAX:
        faults.invalid(
            "owner",
            sentence(
                "A text of at most {most} characters is needed, not {given}.",
                most=OWNER_LENGTH_MAX,
                given=value_text(owner),
            ),
        )
        owner = ""
    resources: list[DocumentResource] = []
    paths: list[tuple[ResourceId, str]] = []
    for section, kind in SECTIONS.items():
        given = value.get(section)
        if given is None:
            continue
        if not isinstance(given, list):
            faults.invalid(section, sentence("A list is needed, not a value of type {given}.", given=json_type(given)))
            continue
        if len(given) > RESOURCES_MAX:
            faults.invalid(section, sentence(TOO_MANY, most=RESOURCES_MAX))
            continue
        for i, item in enumerate(given):
            path = f"{section}.{i}"
            if not isinstance(item, Mapping):
                faults.invalid(
                    path, sentence("An object is needed, not a value of type {given}.", given=json_type(item))
                )
                continue
            key, desired = SECTION_READERS[kind](item, path, faults)
            if key is not None:
                paths.append(((kind, key), path))
            if key is not None and desired is not None:
                resources.append(DocumentResource(kind, key, desired, path))
    if len(paths) > RESOURCES_MAX:
        faults.invalid("", sentence(TOO_MANY, most=RESOURCES_MAX))
    _check_repeated(paths, faults)
    if faults.found:
        raise InvalidDocument(faults.found)
    return ClusterDocument(owner, tuple(resources))


def _check_repeated(paths: list[tuple[ResourceId, str]], faults: DocumentFaults) -> None:
    first: dict[ResourceId, str] = {}
    for resource, path in paths:
        if (earlier := first.setdefault(resource, path)) != path:
            faults.add(path, DocumentFault.REPEATED, sentence(SAME_RESOURCE[resource[0]], path=earlier))
