"""DescribeClientQuotas and AlterClientQuotas: read from what is in force, changes forwarded to the controller.

Law: Kafka's verdicts; one entry is changed as a whole or not at all. Must not come in: how quotas are counted (`access/quotas`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from brokerd.access.quotas import CLIENT, CONNECTIONS, IP, KEYS, USER, Quotas, entity_key, entity_of
from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.dispatch import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

EXACT, DEFAULT, ANY = 0, 1, 2
NAME_CHARACTERS_MAX = 400
ALTER_TIMEOUT_MS = 30_000


class QuotasApi:
    def __init__(self, quotas: Quotas, ask: Ask) -> None:
        self._quotas, self._forward = quotas, Forwarding(ask)

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe, ApiKey.ALTER_CLIENT_QUOTAS: self.alter}

    def describe(self, request: Request) -> None:
        body: m.DescribeClientQuotasRequest = request.body
        r = m.DescribeClientQuotasResponse
        kinds = [c.entity_type for c in body.components]
        problem = None
        if len(set(kinds)) != len(kinds):
            problem = "an entity type stands twice in the filter"
        elif not set(kinds) <= {USER, CLIENT, IP}:
            problem = f"there are no entity types but {USER}, {CLIENT} and {IP}"
        elif IP in kinds and len(kinds) > 1:
            problem = f"a filter for {IP} stands alone"
        elif any(c.match_type not in (EXACT, DEFAULT, ANY) for c in body.components):
            problem = "a match type is not known"
        if problem is not None:
            request.reply(r(error_code=ErrorCode.INVALID_REQUEST, error_message=problem, entries=None))
            return
        out = []
        for key, values in self._quotas.entries.items():
            entity = entity_of(key)
            if all(_fits(c, entity) for c in body.components) and not (body.strict and set(entity) - set(kinds)):
                out.append(
                    r.EntryData(
                        entity=[r.EntityData(entity_type=k, entity_name=n) for k, n in entity.items()],
                        values=[r.ValueData(key=k, value=float(v)) for k, v in values.items()],
                    )
                )
        request.reply(r(entries=out))

    def alter(self, request: Request) -> None:
        body: m.AlterClientQuotasRequest = request.body
        r = m.AlterClientQuotasResponse
        verdicts: list[tuple[int, str | None]] = []
        items: list[dict[str, Any]] = []
        places: list[int] = []
        seen: set[str] = set()
        for place, entry in enumerate(body.entries):
            entity = {e.entity_type: e.entity_name for e in entry.entity}
            key = entity_key(entity)
            problem = _problem(entry, entity)
            if problem is None and key in seen:
                problem = "an entity stands twice in the request"
            seen.add(key)
            verdicts.append((ErrorCode.INVALID_REQUEST if problem is not None else 0, problem))
            if problem is not None:
                continue
            values = dict(self._quotas.entries.get(key, {}))
            for op in entry.ops:
                if op.remove:
                    values.pop(op.key, None)
                else:
                    values[op.key] = op.value
            items.append({"name": key, "kind": "quota", "value": values or None})
            places.append(place)

        def answered(told: Sequence[Mapping[str, Any]]) -> None:
            for place, result in zip(places, told, strict=True):
                verdicts[place] = (result["error"], result.get("message"))
            request.reply(
                r(
                    entries=[
                        r.EntryData(
                            error_code=error, error_message=message,
                            entity=[r.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity],
                        )
                        for entry, (error, message) in zip(body.entries, verdicts, strict=True)
                    ]
                )
            )  # fmt: skip

        self._forward(request.principal, "alter_access", items, body.validate_only, ALTER_TIMEOUT_MS, answered)


def _fits(c: m.DescribeClientQuotasRequest.ComponentData, entity: Mapping[str, str | None]) -> bool:
    if c.entity_type not in entity:
        return False
    name = entity[c.entity_type]
    return c.match_type == ANY or (name is None if c.match_type == DEFAULT else name == c.match)


def _problem(entry: m.AlterClientQuotasRequest.EntryData, entity: Mapping[str, str | None]) -> str | None:
    by_address = set(entity) == {IP}
    if not entity or len(entity) != len(entry.entity) or not (by_address or set(entity) <= {USER, CLIENT}):
        return f"an entity is made of {USER}, {CLIENT} or both, each once, or of {IP} alone"
    if by_address and (address := entity[IP]) is not None and not _is_address(address):
        return f"{address!r} is not an IP address"
    if any(name is not None and not 0 < len(name) <= NAME_CHARACTERS_MAX for name in entity.values()):
        return "an entity's name is empty or too long"
    for op in entry.ops:
        if op.key not in ((CONNECTIONS,) if by_address else KEYS):
            return f"Invalid configuration key {op.key}"
        if not op.remove and not 0 < op.value < 1e18:
            return f"{op.key} must be greater than 0"
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
