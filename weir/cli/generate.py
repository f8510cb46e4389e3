"""`python -m weir.cli.generate`: writes weir_common/rest_operations.json, the table of commands, from the OpenAPI schema of the REST API.

The table is stored so that the command line starts without Django and knows its commands without a server. A test compares it with the schema.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from weir_common.rest_operations import PREFIX, TABLE, RestParameterType

METHODS = ("get", "post", "patch", "put", "delete")
COLLECTION_VERBS = {"get": "list", "post": "create"}
ITEM_VERBS = {"get": "show", "patch": "update", "put": "replace", "delete": "delete"}
VERBS = {
    ("get", "/topics/{name}/records"): "look-up",
    ("post", "/topics/{name}/records"): "produce",
    ("get", "/brokers/{broker_id}/drain"): "check-drain",
    ("get", "/brokers/{broker_id}/restart"): "check-restart",
    ("patch", "/brokers/{broker_id}/configs"): "update-configs",
    ("put", "/alert-thresholds/{name}/overrides/{subject}"): "override",
    ("delete", "/alert-thresholds/{name}/overrides/{subject}"): "end-override",
    ("post", "/drift/{topic_id}/adopt"): "adopt",
    ("post", "/lake/query"): "query",
    ("get", "/lake/tables/{namespace}/{name}"): "show-table",
    ("post", "/anomalies/metrics/{name}/{verb}"): "switch-metric",
    ("get", "/moves/{move_id}/delete-records"): "preview-delete-records",
    ("post", "/rebalance"): "propose",
    ("get", "/connectors/connector"): "show",
}
"""Verbs of paths whose own name would be ambiguous."""
LEFT_OUT = {"/", "/schema"}
RESERVED = {"body", "output", "watch", "wait", "yes", "help"}
"""Options that every command has."""
COMMENT = {"name": "comment", "type": "string", "doc": "Reason, stored with the change."}
"""The field of the body of each deletion. OpenAPI schemas describe no bodies of DELETE."""
DOC_MAX = 110


def schema() -> dict[str, Any]:
    """The OpenAPI schema of this checkout."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weir.settings")
    import django

    django.setup()
    from drf_spectacular.renderers import OpenApiJsonRenderer
    from drf_spectacular.settings import spectacular_settings

    # Through JSON: the generator returns lazy texts and enums.
    generator = spectacular_settings.DEFAULT_GENERATOR_CLASS()
    found: dict[str, Any] = json.loads(
        OpenApiJsonRenderer().render(generator.get_schema(request=None, public=True), renderer_context={})
    )
    return found


def table(openapi: Mapping[str, object]) -> list[dict[str, Any]]:
    """One row per operation, sorted by command. Raises ValueError if two operations would have the same command, or an option the name of a general one."""
    rows = sorted(_rows(openapi), key=lambda row: (row["noun"], row["verb"]))
    commands = [(row["noun"], row["verb"]) for row in rows]
    if twice := sorted({c for c in commands if commands.count(c) > 1}):
        raise ValueError(f"more than one operation for {twice}: give one of them a verb in VERBS")
    for row in rows:
        names = [p["name"] for p in row["query"] + row["fields"]]
        if reserved := RESERVED & set(names):
            raise ValueError(f"{row['method']} {row['path']}: {sorted(reserved)} are options of every command")
    return rows


def _rows(openapi: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    schemas = openapi["components"]["schemas"]
    for full, methods in openapi["paths"].items():
        path = full.removeprefix(PREFIX)
        if path in LEFT_OUT:
            continue
        for method in METHODS:
            if method not in methods:
                continue
            operation = methods[method]
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            noun, verb = _command(method, path, openapi["paths"])
            if verb == "show" and operation["operationId"].endswith("_list"):
                verb = "list"
            yield {
                "noun": noun,
                "verb": verb,
                "method": method.upper(),
                "path": path,
                "doc": _one_line(operation.get("description", "") or operation.get("summary", "")),
                "arguments": re.findall(r"{(\w+)}", path),
                "query": [
                    _parameter(p["name"], p["schema"], p.get("description", ""), schemas)
                    for p in operation.get("parameters", ())
                    if p["in"] == "query"
                ]
                if method == "get"
                else [],
                "fields": [COMMENT]
                if method == "delete"
                else [
                    _parameter(name, s, s.get("description", ""), schemas)
                    for name, s in _resolve(body or {}, schemas).get("properties", {}).items()
                    if not s.get("readOnly")
                ],
                "has_body": body is not None or method == "delete",
            }


def _command(method: str, path: str, paths: Mapping[str, object]) -> tuple[str, str]:
    """(noun, verb) of a path below PREFIX."""
    parts = path.strip("/").split("/")
    noun = parts[0]
    if (method, path) in VERBS:
        return noun, VERBS[method, path]
    names = [p for p in parts[1:] if not p.startswith("{")]
    if names:
        # /topics/{name}/partitions/{partition}: an object below an object is not its list.
        item = parts[-1].startswith("{") and len(parts) > 2
        listed = f"{PREFIX}{path.rpartition('/')[0]}" in paths
        verb = "-".join(n.replace("_", "-") for n in names)
        return noun, f"{ITEM_VERBS.get(method, 'act')}-{verb}" if item and listed else verb
    if parts[-1].startswith("{"):
        return noun, ITEM_VERBS.get(method, method)
    single = not any(p.startswith(f"{PREFIX}/{noun}/{{") for p in paths)
    return noun, ("show" if single and method == "get" else COLLECTION_VERBS.get(method, method))


def _resolve(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without references. A schema of variants has the properties of all of them."""
    if "$ref" in schema:
        return _resolve(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    parts = [_resolve(s, schemas) for key in ("allOf", "oneOf", "anyOf") for s in schema.get(key, ())]
    if not parts:
        return schema
    merged: dict[str, Any] = {}
    for part in parts:
        if not (part.get("enum") == [""] or part.get("enum") == [None]):
            merged = {**part, **merged, "properties": {**part.get("properties", {}), **merged.get("properties", {})}}
    return {**merged, **{k: v for k, v in schema.items() if k not in ("allOf", "oneOf", "anyOf")}}


def _parameter(name: str, schema: Mapping[str, object], doc: str, schemas: Mapping[str, object]) -> dict[str, Any]:
    resolved = _resolve(schema, schemas)
    kind = _type(resolved, schemas)
    out: dict[str, Any] = {"name": name, "type": kind.value}
    if kind is RestParameterType.STRING and (
        choices := [str(c) for c in resolved.get("enum", ()) if c not in ("", None)]
    ):
        out["choices"] = choices
    if text := _one_line(doc):
        out["doc"] = text
    return out


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> RestParameterType:
    match schema.get("type"):
        case "string" | "integer" | "number" | "boolean" as scalar:
            return RestParameterType(scalar)
        case "array":
            item = _resolve(schema["items"], schemas).get("type")
            by_item = {"string": RestParameterType.STRINGS, "integer": RestParameterType.INTEGERS}
            return by_item.get(item, RestParameterType.JSON) if isinstance(item, str) else RestParameterType.JSON
        case "object" if (
            isinstance(extra := schema.get("additionalProperties"), dict) and extra.get("type") == "string"
        ):
            return RestParameterType.MAP
    return RestParameterType.JSON


def _one_line(text: str) -> str:
    first = " ".join(text.strip().partition("\n\n")[0].split())
    return first if len(first) <= DOC_MAX else first[: DOC_MAX - 1].rpartition(" ")[0] + "…"


def text() -> str:
    """The content of the table's file."""
    return json.dumps(table(schema()), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TABLE.write_text(text())
