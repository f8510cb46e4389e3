"""The schema registry of WEIR_SCHEMA_REGISTRY_URL. Does not contain: the client itself (`weir_common.schema_registry`)."""

from __future__ import annotations

from django.conf import settings

from weir_common.schema_registry import SchemaRegistryClient

_clients: dict[str, SchemaRegistryClient] = {}
"""One client per address, for its cache."""


def registry() -> SchemaRegistryClient | None:
    """The client of WEIR_SCHEMA_REGISTRY_URL; None if it is not set."""
    address: str = settings.WEIR.schema_registry_url
    if not address:
        return None
    return _clients.setdefault(address, SchemaRegistryClient(address))
