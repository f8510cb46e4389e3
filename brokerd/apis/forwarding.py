"""What clients ask about topics, on its way to the controller and back: cut into pieces, each answered by the metadata log.

Law: one result per topic, in the order asked, whatever the controller said; what cannot be carried is refused with a sentence before
it is sent. Called by `admin`. Must not come in: what a change means (the controller's `requests`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from brokerd.cluster.metadata import RequestAnswered
from brokerd.wire.errors import ErrorCode

Ask = Callable[[str, dict[str, Any], int, Callable[[RequestAnswered | None], None]], None]
Results = Sequence[Mapping[str, Any]]

ASK_TIMEOUT_MS_MAX = 60_000
TOPICS_PER_REQUEST_MAX = 2_000
PARTITIONS_PER_REQUEST_MAX = 10_000
"""What one request may ask for (Kafka's own bound for partitions): the controller works through it before it looks at anything else."""
PIECE_BYTES_MAX = 16 * 1024
"""Of one forwarded piece: the answer to all its topics has to fit one entry of the metadata log (64 KiB)."""
TOPIC_BYTES_MAX = 512 * 1024
"""Of one topic's change, a manual assignment above all; ZooKeeper closes the connection over a node of 1 MiB."""
MESSAGE_CHARACTERS_MAX = 1_000
"""A sentence may quote what a client sent, which may be longer than a string of the protocol."""
NOT_ANSWERED = "the controller did not answer in time; ask again, and see whether the change took place"


class Forwarding:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def __call__(
        self,
        principal: str,
        kind: str,
        topics: Sequence[Mapping[str, Any]],
        validate_only: bool,
        timeout_ms: int,
        done: Callable[[Results], None],
        partitions: int = 0,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        """Ask on behalf of `principal` (`User:alice`) for every topic; `done` hears one result per topic, in order, once all are there.
        `more` goes with each piece."""
        results: list[Mapping[str, Any]] = [{}] * len(topics)
        told = None
        if len(topics) > TOPICS_PER_REQUEST_MAX:
            told = f"{len(topics)} topics in one request; at most {TOPICS_PER_REQUEST_MAX} may be: send it in parts"
        elif partitions > PARTITIONS_PER_REQUEST_MAX:
            told = (
                f"{partitions} partitions in one request; at most {PARTITIONS_PER_REQUEST_MAX} may be: send it in parts"
            )
        if told is not None or not topics:
            done([{"name": t["name"], "error": ErrorCode.POLICY_VIOLATION, "message": told} for t in topics])
            return
        pieces: list[list[int]] = []
        room = 0
        for place, topic in enumerate(topics):
            size = len(json.dumps(topic))
            if size > TOPIC_BYTES_MAX:
                told = f"{size} bytes for one topic; at most {TOPIC_BYTES_MAX} can be forwarded"
                results[place] = {"name": topic["name"], "error": ErrorCode.POLICY_VIOLATION, "message": told}
                continue
            if size > room:
                pieces.append([])
                room = PIECE_BYTES_MAX
            pieces[-1].append(place)
            room -= size
        left = len(pieces)

        def answered(piece: list[int], answer: RequestAnswered | None) -> None:
            nonlocal left
            for place, result in zip(piece, _results(answer, [topics[i]["name"] for i in piece]), strict=True):
                results[place] = result
            left -= 1
            if left == 0:
                done(results)

        if not pieces:
            done(results)
        for piece in pieces:
            payload: dict[str, Any] = {
                "topics": [topics[i] for i in piece],
                "validate_only": validate_only,
                "principal": principal,
            }
            payload.update(more or {})
            self._ask(kind, payload, _timeout(timeout_ms), partial(answered, piece))


def _timeout(timeout_ms: int) -> int:
    return max(1, min(timeout_ms, ASK_TIMEOUT_MS_MAX))


def _results(answer: RequestAnswered | None, names: Sequence[str | None]) -> list[dict[str, Any]]:
    """One result per name, in order, whatever the controller said."""
    results = _results_at_length(answer, names)
    for result in results:
        message = result.get("message")
        if message is not None and len(message) > MESSAGE_CHARACTERS_MAX:
            result["message"] = message[:MESSAGE_CHARACTERS_MAX] + " ..."
    return results


def _results_at_length(answer: RequestAnswered | None, names: Sequence[str | None]) -> list[dict[str, Any]]:
    if answer is None:
        return [{"name": n, "error": ErrorCode.REQUEST_TIMED_OUT, "message": NOT_ANSWERED} for n in names]
    if answer.error:
        return [{"name": n, "error": answer.error, "message": answer.message} for n in names]
    given = list(answer.result.get("results", ()))
    if len(given) == len(names):
        return [{**g, "name": g.get("name", n)} for g, n in zip(given, names, strict=True)]
    by_name = {g.get("name"): g for g in given}
    lost = {"error": ErrorCode.UNKNOWN_SERVER_ERROR, "message": "the controller's answer does not name this topic"}
    return [{**by_name.get(n, lost), "name": n} for n in names]
