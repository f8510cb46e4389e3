"""A schema registry's client with given schemas, for tests of produced records."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.unit.controlplane.domain.test_json_schema_encoding import LINE
from weir_common.schema_formats import RegistryUnreachable, Schema, SchemaType, SchemaUnavailable

LINE_SCHEMA = Schema(5, SchemaType.JSON, json.dumps(LINE))


@dataclass
class ScriptedSchemas:
    """`schemas`: by subject and version; None is the latest."""

    schemas: dict[tuple[str, int | None], Schema]
    down: bool = False

    def fetch_schema(self, subject: str, version: int | None) -> Schema:
        if self.down:
            raise RegistryUnreachable("The schema registry did not respond (TimeoutError).")
        if (subject, version) not in self.schemas:
            raise SchemaUnavailable(f"The schema registry has no subject {subject}.")
        return self.schemas[subject, version]
