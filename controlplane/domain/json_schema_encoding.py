"""JSON values that a JSON Schema validates. Pure.

The text is kept as typed. References are resolved among the schema's own references of the registry, never on the network. Needs the package
jsonschema of the extra `formats`. Does not contain: the header with the schema's ID (`schema_encoding`), the texts of
faults (`json_schema_faults`).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin

from controlplane.domain.json_schema_faults import faults_of
from controlplane.domain.value_faults import Faults, ValueMisfit, shorten
from weir_common.phrases import sentence
from weir_common.schema_formats import PARSED_SCHEMAS_MAX, Schema, SchemaUnavailable, load_library, problem_of


def encode_json(schema: Schema, text: str) -> bytes:
    """The text, if its value is valid. Raises ValueMisfit, SchemaUnavailable, and ValueError for text that is not JSON."""
    value = json.loads(text)
    faults = Faults()
    try:
        for error in validator_of(schema).iter_errors(value):
            for fault in faults_of(error):
                faults.append_fault(fault)
    except load_library("referencing.exceptions").Unresolvable as error:
        raise SchemaUnavailable(
            sentence(
                "Schema ID {id} references {name}, which is not among its references.",
                id=schema.id,
                name=repr(shorten(str(error.ref))),
            )
        ) from None
    if faults:
        raise ValueMisfit(sorted(faults, key=lambda f: f.path))
    return text.encode()


@lru_cache(maxsize=PARSED_SCHEMAS_MAX)
def validator_of(schema: Schema) -> Any:
    """The validator of this schema's draft, draft 7 if it names none. Raises SchemaUnavailable."""
    jsonschema, referencing = load_library("jsonschema"), load_library("referencing")
    draft7 = load_library("referencing.jsonschema").DRAFT7
    try:
        definition = json.loads(schema.text)
        base = definition.get("$id", "") if isinstance(definition, dict) else ""
        known: dict[str, Any] = {}
        for name, text in schema.references:
            resource = referencing.Resource.from_contents(json.loads(text), default_specification=draft7)
            known |= {name: resource, urljoin(base, name): resource}
        cls = jsonschema.validators.validator_for(definition, default=jsonschema.Draft7Validator)
        cls.check_schema(definition)
        return cls(definition, registry=referencing.Registry().with_resources(known.items()).crawl())
    except Exception as error:  # noqa: BLE001 - a definition of the registry may be wrong in any way.
        raise SchemaUnavailable(
            sentence("Schema ID {id} is not a valid JSON Schema ({error}).", id=schema.id, error=problem_of(error))
        ) from None
