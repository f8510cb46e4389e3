"""The API reference has every operation, parameter and field of the schema."""

from __future__ import annotations

import re

import pytest
from drf_spectacular.generators import SchemaGenerator

from controlplane.api.reference import METHODS, ReferenceField, api_reference, pages_of, reference_page, type_text


def test_every_operation_and_every_field_of_the_schema_is_in_the_reference() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    pages = pages_of(schema)
    shown = {(o.method.lower(), o.path) for p in pages for o in p.operations}
    assert shown == {(method, path) for path, ms in schema["paths"].items() for method in ms if method in METHODS}
    assert len(shown) > 100
    named = {t.name: t for p in pages for t in p.types}
    assert named.keys() == schema["components"]["schemas"].keys(), "each named type is used by an operation"
    for name, t in named.items():
        assert [f.name for f in t.fields] == list(schema["components"]["schemas"][name].get("properties", ()))


def test_a_page_has_the_types_that_its_operations_contain() -> None:
    page = reference_page("topics")
    assert page is not None and reference_page("nothing") is None
    create = next(o for o in page.operations if (o.method, o.path) == ("POST", "/api/v1/topics"))
    assert create.body_types and set(create.body_types) <= {t.name for t in page.types}
    assert create.summary and "\n" not in create.summary
    lists = next(o for o in page.operations if (o.method, o.path) == ("GET", "/api/v1/topics"))
    assert {"cursor", "limit", "sort"} <= {p.name for p in lists.parameters if p.place == "query"}
    assert {r.status for r in create.responses} >= {"202", "400"}
    assert api_reference() is api_reference(), "the schema is read one time"


CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_each_text_of_the_reference_is_chinese() -> None:
    english, chinese = api_reference(), api_reference("zh-hans")
    assert [page.noun for page in chinese] == [page.noun for page in english]
    operations = [o for page in chinese for o in page.operations]
    types = [t for page in chinese for t in page.types]
    fields = [f for o in operations for f in o.parameters] + [f for t in types for f in t.fields]
    described = [*operations, *types, *fields, *(r for o in operations for r in o.responses)]
    assert not {row.description for row in described if row.description and not CHINESE.search(row.description)}
    assert not [o.summary for o in operations if not o.summary or "。" in o.summary[:-1]]


def test_types_are_in_the_language_of_the_page() -> None:
    page = reference_page("topics", "zh-hans")
    assert page is not None
    types = {t.type for t in page.types} | {f.type for t in page.types for f in t.fields}
    assert "string 的列表" in types and "integer 或 null" in types
    assert not [text for text in types if re.search(r"\b(?:list of|one of|or null|by name)\b", text)]


def test_a_language_without_a_catalogue_has_english_texts() -> None:
    assert api_reference("de") == api_reference()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 0}, "integer (minimum 0)"),
        ({"type": "string", "format": "date-time", "nullable": True}, "string (date-time) or null"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Broker"}}, "list of Broker"),
        ({"enum": ["a", "", None]}, 'one of a, "", null'),
        ({"allOf": [{"$ref": "#/components/schemas/Mode"}]}, "Mode"),
        ({"oneOf": [{"$ref": "#/components/schemas/Mode"}, {"enum": [None]}], "nullable": True}, "Mode or null"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object of string by name"),
        ({"type": "object", "additionalProperties": {}}, "object"),
        ({}, "any"),
    ],
)
def test_types_in_words(schema: dict[str, object], text: str) -> None:
    assert type_text(schema) == text


def test_a_small_schema() -> None:
    schema = {
        "paths": {
            "/x/{id}": {
                "parameters": [],
                "post": {
                    "operationId": "x",
                    "tags": ["x"],
                    "description": "Does it. More.",
                    "parameters": [
                        {"in": "path", "name": "id", "required": True, "schema": {"type": "integer", "default": 1}}
                    ],
                    "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}},
                    "responses": {"204": {"description": "Done"}},
                },
            }
        },
        "components": {
            "schemas": {
                "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}, "required": ["b"]},
                "B": {"enum": ["x"], "description": "B."},
                "C": {"type": "string"},
            }
        },
    }
    (page,) = pages_of(schema)
    (o,) = page.operations
    assert (o.summary, o.body, o.responses[0].type) == ("Does it.", "A", "")
    assert o.parameters == (ReferenceField("id", "path", "integer", (), True, "1", ""),)
    assert [t.name for t in page.types] == ["A", "B"] and page.types[0].fields[0].required
