"""Forwarding of client requests to the controller, in pieces, each answered by the metadata log.

Invariants: every item gets one result, in the order of the request, for any response of the controller. An item that cannot be forwarded is
rejected with a message before anything is sent. Does not contain: the validation of changes (the controller's `request_validation`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from brokerd.cluster import typed_json
from brokerd.cluster.metadata import RequestCompleted
from brokerd.cluster.requests import (
    AnyPayload,
    ElectLeaders,
    Item,
    ItemResult,
    RowsPayload,
    UpdateFeatures,
    results_from_json,
)
from brokerd.cluster.typed_json import MalformedJson
from brokerd.wire.errors import ErrorCode

SendToController = Callable[[AnyPayload, int, Callable[[RequestCompleted | None], None]], None]
"""(payload, timeout in ms, callback with the response, or None after the timeout)"""
ForwardedPayload = RowsPayload | ElectLeaders | UpdateFeatures
Results = Sequence[ItemResult]

ASK_TIMEOUT_MS_MAX = 60_000
ITEMS_PER_REQUEST_MAX = 2_000
PARTITIONS_PER_REQUEST_MAX = 10_000
"""Maximum number of items of one request; the limit for partitions is Kafka's. While the controller handles a request it handles nothing else."""
PIECE_BYTES_MAX = 16 * 1024
"""Maximum number of bytes per forwarded piece: the result for all its items must fit into one entry of the metadata log (64 KiB)."""
ITEM_BYTES_MAX = 512 * 1024
"""Maximum bytes per item. Only a manual replica assignment can be that long. ZooKeeper closes the connection of a client that writes a znode of 1 MiB."""
MESSAGE_CHARACTERS_MAX = 1_000
"""An error message may quote a text of a client, which may be longer than a string of the protocol."""
NO_RESPONSE_TEXT = "the controller did not respond in time; check whether the change was made and retry"
NO_RESULT = "the controller's response has no result for this item; check whether the change was made and retry"


class Forwarding:
    def __init__(self, send_to_controller: SendToController) -> None:
        self._send_to_controller = send_to_controller

    def __call__(
        self, payload: ForwardedPayload, timeout_ms: int, done: Callable[[Results], None], partitions: int = 0
    ) -> None:
        """Forward every item. `done` receives one result per item, in order, when all are there."""
        items: Sequence[Item] = payload.items
        results = [ItemResult()] * len(items)
        problem = None
        if len(items) > ITEMS_PER_REQUEST_MAX:
            problem = f"{len(items)} items in one request; the limit is {ITEMS_PER_REQUEST_MAX}: split the request"
        elif partitions > PARTITIONS_PER_REQUEST_MAX:
            problem = (
                f"{partitions} partitions in one request; the limit is {PARTITIONS_PER_REQUEST_MAX}: split the request"
            )
        if problem is not None or not items:
            done([ItemResult(i.name, ErrorCode.POLICY_VIOLATION, problem) for i in items])
            return
        pieces: list[list[int]] = []
        room = 0
        for place, item in enumerate(items):
            size = len(json.dumps(typed_json.encode(item)))
            if size > ITEM_BYTES_MAX:
                problem = (
                    f"the item has {size} bytes, more than the maximum {ITEM_BYTES_MAX}: shorten its replica assignment"
                )
                results[place] = ItemResult(item.name, ErrorCode.POLICY_VIOLATION, problem)
                continue
            if size > room:
                pieces.append([])
                room = PIECE_BYTES_MAX
            pieces[-1].append(place)
            room -= size
        left = len(pieces)

        def on_result(piece: list[int], response: RequestCompleted | None) -> None:
            nonlocal left
            piece_results = _results(response, [items[i].name for i in piece], payload.RESULT)
            for place, result in zip(piece, piece_results, strict=True):
                results[place] = result
            left -= 1
            if left == 0:
                done(results)

        if not pieces:
            done(results)
        for piece in pieces:
            self._send_to_controller(payload.only(piece), _timeout(timeout_ms), partial(on_result, piece))


def _timeout(timeout_ms: int) -> int:
    return max(1, min(timeout_ms, ASK_TIMEOUT_MS_MAX))


def _results(
    response: RequestCompleted | None, names: Sequence[str | None], kind: type[ItemResult]
) -> list[ItemResult]:
    """Return one result per name, in order, for any response of the controller."""
    return [
        replace(r, message=r.message[:MESSAGE_CHARACTERS_MAX] + " ...")
        if r.message is not None and len(r.message) > MESSAGE_CHARACTERS_MAX
        else r
        for r in _results_at_length(response, names, kind)
    ]


def _results_at_length(
    response: RequestCompleted | None, names: Sequence[str | None], kind: type[ItemResult]
) -> list[ItemResult]:
    if response is None:
        return [ItemResult(n, ErrorCode.REQUEST_TIMED_OUT, NO_RESPONSE_TEXT) for n in names]
    if response.error:
        return [ItemResult(n, response.error, response.message) for n in names]
    try:
        given = results_from_json(response.result, kind)
    except MalformedJson as e:
        text = f"the controller's response cannot be read: {e}; check whether the change was made and retry"
        return [ItemResult(n, ErrorCode.UNKNOWN_SERVER_ERROR, text) for n in names]
    if len(given) == len(names):
        return [g if g.name is not None else replace(g, name=n) for g, n in zip(given, names, strict=True)]
    by_name = {g.name: g for g in given}
    return [by_name.get(n) or ItemResult(n, ErrorCode.UNKNOWN_SERVER_ERROR, NO_RESULT) for n in names]
