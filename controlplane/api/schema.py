"""The error responses of every operation in the OpenAPI schema."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import get_doc
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import Serializer

from controlplane.api import idempotency, preconditions
from controlplane.api.problems import MEDIA_TYPE, TYPE_PREFIX, FieldCode, ProblemCode

FIELD_ERROR = {
    "type": "object",
    "required": ["field", "code", "detail"],
    "properties": {
        "field": {
            "type": "string",
            "description": "Dotted path of the input at fault; empty for the input as a whole.",
        },
        "code": {"type": "string", "enum": list(FieldCode)},
        "detail": {"type": "string"},
    },
}
PROBLEM = {
    "type": "object",
    "description": "A problem of RFC 9457. Compare `code`; the sentences change.",
    "required": ["type", "title", "status", "detail", "code", "field", "errors"],
    "properties": {
        "type": {"type": "string", "format": "uri", "description": f"`{TYPE_PREFIX}` and the code."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was rejected, why, and what would make it possible."},
        "code": {"type": "string", "enum": list(ProblemCode)},
        "field": {"type": "string", "description": "Of the first error; empty when the cluster's state is at fault."},
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}},
    },
}
READ_ERRORS = ("400", "401", "403", "404", "406", "409", "500", "503")
WRITE_ERRORS = ("400", "401", "403", "404", "406", "409", "413", "415", "500", "503")


IDEMPOTENCY_KEY = OpenApiParameter(
    idempotency.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="A repeated request with this key gets the first response, for 24 hours.",
    pattern=idempotency.KEY.pattern,
)
IF_MATCH = OpenApiParameter(
    preconditions.HEADER,
    str,
    OpenApiParameter.HEADER,
    description="The entity tag that the object must have, from the ETag of an earlier response.",
)


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "controlplane.api.authentication.ApiTokenAuthentication"
    name = "apiToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, object]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "weir_..."}


GENERIC_DESCRIPTIONS = {"list": "List the {plural} that match the filters.", "retrieve": "Show one {noun}."}


class WeirSchema(AutoSchema):
    """Describes generic operations. Adds the headers that all requests of a method, or all requests on an object with an entity tag, may have."""

    def get_description(self) -> str:  # type: ignore[override]  # that of drf-spectacular has no parameters
        """The docstring of the operation. The generic list and the generic GET of an object have none: their text names the object, and has the docstring of
        the view set, which describes it."""
        action = getattr(self.view, "action", None)
        own = get_doc(getattr(self.view, action or self.method.lower(), None))
        noun = getattr(self.view, "noun", "")
        if own or not noun or action not in GENERIC_DESCRIPTIONS:
            return str(super().get_description())
        plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
        text = GENERIC_DESCRIPTIONS[action].format(noun=noun, plural=plural)
        return f"{text} {get_doc(type(self.view))}".strip()

    def get_override_parameters(self) -> list[OpenApiParameter | Serializer[object] | type[Serializer[object]]]:
        found = list(super().get_override_parameters())
        if self.method == "POST":
            found.append(IDEMPOTENCY_KEY)
        lookup = getattr(self.view, "lookup_url_kwarg", None)
        if self.method != "GET" and getattr(self.view, "tag_of", None) and f"{{{lookup}}}" in self.path:
            found.append(IF_MATCH)
        return found


def reject_unknown_fields(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Hook of drf-spectacular: `controlplane.api.strict` rejects unknown fields in the body of a request."""
    schemas = result["components"]["schemas"]
    for path in result["paths"].values():
        for operation in path.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                name = content["schema"].get("$ref", "").rpartition("/")[2]
                if schemas.get(name, {}).get("type") == "object":
                    schemas[name]["additionalProperties"] = False
    return result


def add_errors(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """Hook of drf-spectacular: `controlplane.api.errors` answers each operation's errors in one shape."""
    result.setdefault("components", {}).setdefault("schemas", {}).update(FieldError=FIELD_ERROR, Problem=PROBLEM)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path in result["paths"].values():
        for method, operation in path.items():
            headers = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "header"}
            more = {idempotency.HEADER: "422", preconditions.HEADER: "412"}
            for status in (
                *(READ_ERRORS if method == "get" else WRITE_ERRORS),
                *(status for header, status in more.items() if header in headers),
            ):
                described = {"content": content, "description": HTTPStatus(int(status)).phrase}
                operation["responses"].setdefault(status, described)
    return result
