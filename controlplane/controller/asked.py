"""What clients ask for through brokers: decided at once where no row is needed, kept until the log has it where one is.

Laws: every request is answered once, in the entry of its effect or when its time is up; what must not wait for a database (levels, features, elections,
a broker that leaves) does not. Called by `core`. Must not come in: whether a wish may be written (`requests`), rows (`wanted`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from brokerd.cluster.levels import FEATURE
from brokerd.cluster.metadata import AccessChanged, FeatureFinalised, MetadataLevelRaised
from brokerd.cluster.model import Now, Seat, TopicPartition
from brokerd.cluster.znodes import ELECT, RAISE_LEVEL, UPDATE_FEATURES, ForwardedRequest
from controlplane.controller import elections, leaders, requests
from controlplane.controller.events import ChangeMade, DesiredFailed, WriteDesired
from controlplane.controller.look import Look

ACCESS_LEVEL = AccessChanged.LEVEL
UNSUPPORTED_VERSION, REQUEST_TIMED_OUT = 35, 7
REQUEST_MS_MAX = 15_000
"""A forwarded request that the database has not settled by then is answered with a time-out."""


@dataclass(slots=True)
class Pending:
    """A request under way: the verdicts so far, and the topics still to be seen in the log."""

    request: ForwardedRequest
    results: list[dict[str, Any]]
    waiting: set[str]
    deadline_mono_ms: int


@dataclass(slots=True)
class Asked:
    pending: dict[str, Pending] = field(default_factory=dict)
    fresh: list[ForwardedRequest] = field(default_factory=list)

    # -- what is heard of them -------------------------------------------------------------------------------------------
    def hear(self, request: ForwardedRequest) -> None:
        if request.request_id not in self.pending:
            self.fresh.append(request)

    def failed(self, event: DesiredFailed) -> None:
        pending = self.pending.get(event.request_id)
        if pending is not None:
            failed = set(event.names) or set(pending.waiting)
            for result in pending.results:
                if result["name"] in pending.waiting & failed:
                    result.update(error=event.error, message=event.message)
            pending.waiting -= failed

    def fulfilled(self, request_id: str | None, name: str) -> None:
        """The log has it, or will with this look's records."""
        pending = self.pending.get(request_id or "")
        if pending is not None:
            pending.waiting.discard(name)

    def refused(self, request_id: str | None, name: str, reason: str) -> None:
        """This one of its wishes cannot be met."""
        pending = self.pending.get(request_id or "")
        if pending is not None:
            for result in pending.results:
                if result["name"] == name:
                    result.update(error=requests.INVALID_REPLICA_ASSIGNMENT, message=reason)
            pending.waiting.discard(name)

    def overdue(self, now: Now) -> bool:
        return any(now.mono_ms >= p.deadline_mono_ms for p in self.pending.values())

    def validate(self) -> None:
        for request_id, pending in self.pending.items():
            assert request_id == pending.request.request_id, f"request {request_id} is kept under another's id"
            names = {r["name"] for r in pending.results}
            assert pending.waiting <= names, (
                f"request {request_id} waits for topics it did not ask about: {pending.waiting - names}"
            )

    # -- what a look makes of them ---------------------------------------------------------------------------------------
    def decide(self, look: Look, now: Now) -> None:
        fresh, self.fresh = self.fresh, []
        for request in fresh:
            if request.kind == "controlled_shutdown":
                leaders.leave(look, Seat(request.broker_id, request.incarnation))
                _answer(look, request, [])
            elif request.kind == RAISE_LEVEL:
                _raise_level(look, request)
            elif request.kind == UPDATE_FEATURES:
                _update_features(look, request)
            elif request.kind == ELECT:
                _elect(look, request)
            elif requests.known(request.kind):
                self._want(look, request, now)
            else:
                text = f"unknown request {request.kind!r}"
                look.answer(request.request_id, requests.INVALID_REQUEST, text, {})

    def _want(self, look: Look, request: ForwardedRequest, now: Now) -> None:
        """It becomes rows, as far as it may."""
        results = requests.verdicts(request.kind, request.payload, look.image, look.live())
        if request.kind in ("alter_access", "alter_broker_configs") and look.level() < ACCESS_LEVEL:
            for r in results:
                r.update(error=UNSUPPORTED_VERSION, message=requests.ACCESS_NEEDS_LEVEL)
        good = {r["name"] for r in results if not r["error"]}
        if not good or request.payload.get("validate_only"):
            _answer(look, request, results)
            return
        self.pending[request.request_id] = Pending(request, results, good, now.mono_ms + REQUEST_MS_MAX)
        wanted = [t for t, r in zip(request.payload["topics"], results, strict=True) if not r["error"]]
        look.effects.append(WriteDesired(replace(request, payload={**request.payload, "topics": wanted})))

    def settle(self, look: Look, now: Now) -> None:
        """Answer what waits for nothing more, or for too long."""
        for request_id, pending in list(self.pending.items()):
            if pending.waiting and now.mono_ms >= pending.deadline_mono_ms:
                for result in pending.results:
                    if result["name"] in pending.waiting:
                        result.update(error=REQUEST_TIMED_OUT, message="the database did not take the change in time; "
                                      "nothing was changed yet, but it may still be")  # fmt: skip
                pending.waiting.clear()
            if not pending.waiting:
                del self.pending[request_id]
                _answer(look, pending.request, pending.results)


def _answer(look: Look, request: ForwardedRequest, results: list[dict[str, Any]]) -> None:
    look.answer(request.request_id, 0, None, {"results": results})


def _raise_level(look: Look, request: ForwardedRequest) -> None:
    level, problem = requests.wanted_level(request.payload, look.image, look.registrations.values())
    if problem is None:
        _finalise(look, request, FEATURE, level)
    error = 0 if problem is None else requests.INVALID_UPDATE_VERSION
    look.answer(request.request_id, error, problem, {"level": level})


def _update_features(look: Look, request: ForwardedRequest) -> None:
    results = requests.feature_results(request.payload, look.image, look.registrations.values(), look.level())
    if not request.payload.get("validate_only") and not any(r["error"] for r in results):
        for item in sorted(request.payload["topics"], key=lambda i: i["name"] != FEATURE):
            _finalise(look, request, item["name"], int(item["level"]))
    _answer(look, request, results)


def _finalise(look: Look, request: ForwardedRequest, name: str, level: int) -> None:
    before = look.level() if name == FEATURE else look.image.features.get(name, 0)
    if level == before and (name == FEATURE or name in look.image.features):
        return
    look.add(MetadataLevelRaised(level) if name == FEATURE else FeatureFinalised(name, level))
    look.made.append(
        ChangeMade(requests.asker(request), "feature.finalise", "feature", name, {"level": before}, {"level": level})
    )


def _elect(look: Look, request: ForwardedRequest) -> None:
    """At once, whether the database answers or not: its row is written when the log has it."""
    unclean = bool(request.payload.get("unclean"))
    results = []
    for item in request.payload["topics"]:
        topic = look.image.topic_named(item["name"])
        verdicts: list[list[int]] = []
        before: dict[str, int] = {}
        after: dict[str, int] = {}
        for index in item["partitions"]:
            tp = TopicPartition(topic.topic_id, index) if topic is not None else None
            state = look.state(tp) if tp is not None else None
            if topic is None or tp is None or state is None or not topic.ready:
                verdicts.append([index, requests.UNKNOWN_TOPIC_OR_PARTITION])
                continue
            least = look.config(topic).min_insync_replicas
            elected, error = elections.held(state, look.serving(tp), look.shunned(), min_insync=least, unclean=unclean)
            verdicts.append([index, error])
            if elected is not None:
                before[str(index)], after[str(index)] = state.leader, elected.leader
                look.put(tp, elected)
        results.append({"name": item["name"], "error": 0, "message": None, "partitions": verdicts})
        refused = not after and any(e != elections.ELECTION_NOT_NEEDED for _, e in verdicts)
        if after or refused:
            kind = "unclean" if unclean else "preferred"
            errors = {str(i): e for i, e in verdicts if e}
            look.made.append(
                ChangeMade(
                    requests.asker(request), f"topic.elect-{kind}", "topic", item["name"], before or None, after or None,
                    f"Kafka's error by partition: {errors}" if errors else "", refused,
                )
            )  # fmt: skip
    _answer(look, request, results)
