"""Client of a Confluent-compatible schema registry: the schema of an ID, with the schemas that it references.

Invariants: a response is limited in bytes and time, and redirects are not followed. Schemas never change, so each is fetched once per process.
A failure is remembered for some seconds, so that a page of records does not wait for each of them. Does not contain: decoding
(`weir_common.schema_formats`).
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from weir_common.phrases import sentence
from weir_common.schema_formats import RegistryUnreachable, Schema, SchemaType, SchemaUnavailable

TIMEOUT_SECONDS = 2.0
"""Time limit of one request. A reader of records waits for it."""

RESPONSE_BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes of one response: it is in memory as a whole. Large schemas have about 100 KiB."""

SCHEMAS_MAX = 2_000
"""Maximum number of schemas and failures that are kept. The oldest are dropped."""

REFERENCES_MAX = 50
"""Maximum number of schemas that one schema references, directly or not."""

UNKNOWN_SECONDS = 60.0
"""An unknown ID is requested again after this time: the schema may be registered later."""

UNREACHABLE_SECONDS = 10.0
"""Time after a failed request for which no other request is sent."""

NOT_FOUND = 404
REJECTIONS = (400, 409, 422)
"""Statuses of a request that the registry does not accept."""

REJECTION_BYTES_MAX = 64 * 1024
REJECTION_CHARS_MAX = 2_000
"""Maximum number of characters of the registry's reason, which names each incompatible field."""

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


class SchemaRegistryClient:
    """Thread-safe. `base_url` may contain user and password."""

    def __init__(self, base_url: str, clock: Callable[[], float] = time.monotonic) -> None:
        parts = urlsplit(base_url)
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self._clock = clock
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._failed: dict[int, tuple[float, SchemaUnavailable]] = {}
        self._unreachable: tuple[float, str] = (0.0, "")
        self._opener = build_opener(_NoRedirects)

    def schema(self, schema_id: int) -> Schema:
        """The schema of this ID. Raises SchemaUnavailable."""
        with self._lock:
            if (known := self._schemas.get(schema_id)) is not None:
                return known
            if (failed := self._failed.get(schema_id)) is not None and self._clock() < failed[0]:
                raise type(failed[1])(*failed[1].args)
            try:
                found = self._fetch(schema_id)
            except SchemaUnavailable as error:
                again = max(self._unreachable[0], 0 if self._is_unreachable() else self._clock() + UNKNOWN_SECONDS)
                _keep(self._failed, schema_id, (again, error))
                raise
            _keep(self._schemas, schema_id, found)
            return found

    def fetch_schema(self, subject: str, version: int | None) -> Schema:
        """The schema of this version of a subject, None = the latest. Raises SchemaUnavailable."""
        what = subject_text(subject, version)
        found = self._get(f"{subject_path(subject)}/versions/{version or 'latest'}", what)
        return self.schema(int(found["id"]))

    def _is_unreachable(self) -> bool:
        return self._clock() < self._unreachable[0]

    def _fetch(self, schema_id: int) -> Schema:
        body = self._get(f"/schemas/ids/{schema_id}", _id_text(schema_id))
        try:
            kind = SchemaType(body.get("schemaType") or SchemaType.AVRO)
        except ValueError:
            raise SchemaUnavailable(
                sentence(
                    "Schema ID {id} has the unknown type {type}.",
                    id=schema_id,
                    type=repr(str(body["schemaType"])[:20]),
                )
            ) from None
        references: dict[str, str] = {}
        self._follow(body, kind, references)
        if kind is SchemaType.PROTOBUF:
            body = self._get(f"/schemas/ids/{schema_id}?format=serialized", _id_text(schema_id))
        return Schema(schema_id, kind, str(body.get("schema", "")), tuple(references.items()))

    def _follow(self, body: dict[str, Any], kind: SchemaType, schemas: dict[str, str]) -> None:
        """Add the references of this schema, each after its own references."""
        for reference in body.get("references") or []:
            name, subject, version = (str(reference.get(n, "")) for n in ("name", "subject", "version"))
            if name in schemas:
                continue
            if len(schemas) >= REFERENCES_MAX:
                raise SchemaUnavailable(sentence("The schema references more than {max} others.", max=REFERENCES_MAX))
            path = f"{subject_path(subject)}/versions/{quote(version, safe='')}"
            what = sentence("version {version} of subject {subject}", version=version, subject=subject)
            inner = self._get(path, what)
            schemas[name] = ""  # a schema that references itself ends here
            self._follow(inner, kind, schemas)
            if kind is SchemaType.PROTOBUF:
                inner = self._get(f"{path}?format=serialized", what)
            del schemas[name]
            schemas[name] = str(inner.get("schema", ""))

    def _get(self, path: str, what: str) -> dict[str, Any]:
        body = self.request("GET", path, what)
        if not isinstance(body, dict):
            raise SchemaUnavailable(sentence("The response for {what} is not a JSON object.", what=what))
        return body

    def request(self, method: str, path: str, what: str, document: object = None) -> Any:
        """The body of a response. `what`: the object in errors. Raises SchemaUnavailable, RegistryRejected for a request that the registry does not accept."""
        if self._is_unreachable():
            raise RegistryUnreachable(self._unreachable[1])
        headers = self._headers | ({} if document is None else {"Content-Type": CONTENT_TYPE})
        data = None if document is None else json.dumps(document).encode()
        request = Request(self._base + path, data, headers, method=method)  # noqa: S310 - the setting allows http and https only.
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                received = response.read(RESPONSE_BYTES_MAX + 1)
            if len(received) > RESPONSE_BYTES_MAX:
                raise SchemaUnavailable(
                    sentence("The response for {what} is larger than {max} bytes.", what=what, max=RESPONSE_BYTES_MAX)
                )
            return json.loads(received)
        except HTTPError as error:
            if error.code == NOT_FOUND:
                raise SchemaUnknown(sentence("The schema registry has no {what}.", what=what)) from None
            if error.code in REJECTIONS:
                raise RegistryRejected(_message(error)) from None
            raise RegistryUnreachable(
                sentence("The schema registry answered with status {status} for {what}.", status=error.code, what=what)
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            reason = sentence("The schema registry did not respond ({error}).", error=type(error).__name__)
            self._unreachable = (self._clock() + UNREACHABLE_SECONDS, reason)
            raise RegistryUnreachable(reason) from None


class SchemaUnknown(SchemaUnavailable):
    """The registry does not have this subject, version or ID."""


class RegistryRejected(SchemaUnavailable):
    """The registry does not accept the request, for example a schema that is not compatible. The text is the registry's."""


def _message(error: HTTPError) -> str:
    """The reason in the body of an error of the registry."""
    try:
        body = json.loads(error.read(REJECTION_BYTES_MAX))
        return str(body["message"])[:REJECTION_CHARS_MAX]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return sentence("The schema registry rejected the request with status {status}.", status=error.code)


def subject_text(subject: str, version: int | None = None) -> str:
    """The subject or its version, in errors."""
    if version is None:
        return sentence("subject {subject}", subject=subject)
    return sentence("version {version} of subject {subject}", version=version, subject=subject)


def _id_text(schema_id: int) -> str:
    return sentence("schema ID {id}", id=schema_id)


def subject_path(subject: str) -> str:
    """The path of a subject, whose name may have any character."""
    return f"/subjects/{quote(subject, safe='')}"


def _keep(entries: dict[int, Any], key: int, value: object) -> None:
    while len(entries) >= SCHEMAS_MAX:
        del entries[next(iter(entries))]
    entries[key] = value
