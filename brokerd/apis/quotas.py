"""DescribeClientQuotas and AlterClientQuotas: reads use the image, changes are forwarded to the controller.

Invariant: Kafka's error codes. An entity is changed as a whole or not at all. Does not contain: quota accounting (`authz/quotas`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.authz.quotas import Quotas
from brokerd.cluster.metadata import AccessKind
from brokerd.cluster.quota_entities import (
    CLIENT,
    IP,
    USER,
    entity_key,
    entity_of,
    entity_problem,
    value_problem,
)
from brokerd.cluster.requests import AccessUpdate, AlterAccess
from brokerd.net.request import Handler, Request
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

EXACT, DEFAULT, ANY = 0, 1, 2
ALTER_TIMEOUT_MS = 30_000


class QuotasApi:
    def __init__(self, quotas: Quotas, send_to_controller: SendToController, auth: AuthHelper) -> None:
        self._quotas, self._forward, self._auth = quotas, Forwarding(send_to_controller), auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe, ApiKey.ALTER_CLIENT_QUOTAS: self.alter}

    def describe(self, request: Request) -> None:
        body: m.DescribeClientQuotasRequest = request.body
        response_type = m.DescribeClientQuotasResponse
        if not self._auth.authorize(request, Operation.DESCRIBE_CONFIGS, Resource.CLUSTER):
            request.reply(response_type(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, entries=None))
            return
        kinds = [c.entity_type for c in body.components]
        problem = None
        if len(set(kinds)) != len(kinds):
            problem = "the filter names an entity type twice"
        elif not set(kinds) <= {USER, CLIENT, IP}:
            problem = f"unknown entity type; the entity types are {USER}, {CLIENT} and {IP}"
        elif IP in kinds and len(kinds) > 1:
            problem = f"a filter for {IP} cannot be combined with others"
        elif any(c.match_type not in (EXACT, DEFAULT, ANY) for c in body.components):
            problem = "unknown match type: expected 0 (exact), 1 (default) or 2 (any)"
        if problem is not None:
            request.reply(response_type(error_code=ErrorCode.INVALID_REQUEST, error_message=problem, entries=None))
            return
        out = []
        for key, values in self._quotas.entries.items():
            entity = entity_of(key)
            if all(_fits(c, entity) for c in body.components) and not (body.strict and set(entity) - set(kinds)):
                out.append(
                    response_type.EntryData(
                        entity=[response_type.EntityData(entity_type=k, entity_name=n) for k, n in entity.items()],
                        values=[response_type.ValueData(key=k, value=float(v)) for k, v in values.items()],
                    )
                )
        request.reply(response_type(entries=out))

    def alter(self, request: Request) -> None:
        body: m.AlterClientQuotasRequest = request.body
        verdicts: list[tuple[int, str | None]] = []
        if not self._auth.authorize(request, Operation.ALTER_CONFIGS, Resource.CLUSTER):
            verdicts = [(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)] * len(body.entries)
            request.reply(_alter_response(body, verdicts))
            return
        items: list[AccessUpdate] = []
        places: list[int] = []
        seen: set[str] = set()
        for place, entry in enumerate(body.entries):
            entity = {e.entity_type: e.entity_name for e in entry.entity}
            key = entity_key(entity)
            problem = _problem(entry, entity)
            if problem is None and key in seen:
                problem = "the request names an entity twice"
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
            items.append(AccessUpdate(key, AccessKind.QUOTA, values or None))
            places.append(place)

        def on_results(results: Results) -> None:
            for place, result in zip(places, results, strict=True):
                verdicts[place] = (result.error, result.message)
            request.reply(_alter_response(body, verdicts))

        payload = AlterAccess(principal=request.principal, items=tuple(items), validate_only=body.validate_only)
        self._forward(payload, ALTER_TIMEOUT_MS, on_results)


def _alter_response(
    body: m.AlterClientQuotasRequest, verdicts: Sequence[tuple[int, str | None]]
) -> m.AlterClientQuotasResponse:
    """The response with the (error, message) of each entry."""
    r = m.AlterClientQuotasResponse
    return r(
        entries=[
            r.EntryData(
                error_code=error,
                error_message=message,
                entity=[r.EntityData(entity_type=e.entity_type, entity_name=e.entity_name) for e in entry.entity],
            )
            for entry, (error, message) in zip(body.entries, verdicts, strict=True)
        ]
    )


def _fits(c: m.DescribeClientQuotasRequest.ComponentData, entity: Mapping[str, str | None]) -> bool:
    if c.entity_type not in entity:
        return False
    name = entity[c.entity_type]
    return c.match_type == ANY or (name is None if c.match_type == DEFAULT else name == c.match)


def _problem(entry: m.AlterClientQuotasRequest.EntryData, entity: Mapping[str, str | None]) -> str | None:
    if len(entity) != len(entry.entity):
        return "the entity names an entity type twice"
    problem = entity_problem(entity)
    for op in entry.ops:
        problem = problem or value_problem(entity, op.key, None if op.remove else op.value)
    return problem
