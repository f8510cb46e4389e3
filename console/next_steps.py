"""Addresses of the next steps of alerts: a page with a form, or an operation that a button posts.

Invariant: a user who sees only some resources has no button that they cannot use. Other users have it, with the role that they lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from console.address_access import User, may_be_shown, missing_role
from console.forms import RACK
from console.record_links import record_url
from console.texts import gettext_lazy
from console.vocabulary import translated
from controlplane.domain.next_step import NextStep, StepKind
from controlplane.domain.text import size_text
from controlplane.selectors.visibility import current_visibility
from controlplane.services.records import read_denial


@dataclass(frozen=True, slots=True)
class StepButton:
    """`posts`: the button posts to the address; otherwise it opens it. `denied`: why the user cannot use it; empty = they can. `hint`: why this step, empty =
    the label says it."""

    label: str
    url: str
    posts: bool
    denied: str = ""
    hint: str = ""

    @property
    def usable(self) -> bool:
        return not self.denied


def _page(name: str, args: Sequence[str], /, **query: str | Sequence[str]) -> str:
    address = reverse(name, args=args)
    return f"{address}?{urlencode(query, doseq=True)}" if query else address


def _move(topic: str, placements: Sequence[str]) -> str:
    """The review of a move with these placements, "partition=replicas" each."""
    replicas = dict(p.split("=") for p in placements)
    rows = {f"r{partition}": text for partition, text in replicas.items()}
    return _page("move-new", [], kind="partitions", topic=topic, step="review", p=list(replicas), **rows)


def _move_again(kind: str, values: Sequence[str]) -> str:
    """The review of a move with these values of its scope, "name=value" each."""
    found = QueryDict(mutable=True)
    for value in values:
        name, __, text = value.partition("=")
        found.appendlist(*(("broker", f"{RACK}{text}") if name == "rack" else (name, text)))
    return _page("move-new", [], kind=kind, step="review", **dict(found.lists()))


RETENTION = ("retention.bytes", "retention.ms")
UNCLEAN_ELECTION = "unclean.leader.election.enable"
PERMISSION = ("principal", "host", "resource_type", "resource_name", "operation")

_PAGES: dict[str, Callable[[Sequence[str]], str]] = {
    StepKind.START_PROCESS: lambda t: _page("process-start", t),
    StepKind.DRAIN_BROKER: lambda t: _page("broker-act", [*t, "drain"]),
    StepKind.DEMOTE_BROKER: lambda t: _page("broker-act", [t[0], "demote"]),
    StepKind.OPEN_BROKER: lambda t: _page("broker", t),
    StepKind.PROPOSE_ELECTION: lambda t: _page("proposal-new", [], kind="election.unclean", target=f"{t[0]}-{t[1]}"),
    StepKind.OPEN_PARTITION: lambda t: _page("partition", t),
    StepKind.RECOVER_REPLICA: lambda t: _page("recover", t),
    StepKind.MOVE_OFF_BROKER: lambda t: _move(t[1], t[2:]),
    StepKind.OPEN_MOVE: lambda t: _page("move", t),
    StepKind.OPEN_FILLING_MOVE: lambda t: _page("move", t[:1]),
    StepKind.OPEN_FILLING_MOVES: lambda t: _page("moves", [], state="running"),
    StepKind.ROLL_BACK_MOVE: lambda t: _page("move-act", [*t, "roll_back"]),
    StepKind.PLAN_AGAIN: lambda t: _move_again(t[1], t[2:]),
    StepKind.THROTTLE_MOVE: lambda t: _page("move-act", [*t, "throttle"]),
    StepKind.READ_RECORD: lambda t: record_url(t[0], t[1], t[2]),
    StepKind.RAISE_RETENTION: lambda t: _page("topic-alter", t, config=RETENTION),
    StepKind.EDIT_CONFIGS: lambda t: _page("topic-alter", t, config=UNCLEAN_ELECTION),
    StepKind.OPEN_GROUP: lambda t: _page("group", t),
    StepKind.OPEN_JOB: lambda t: _page("job", t),
    StepKind.RESUME_ARCHIVE: lambda t: _page("job-act", [*t, "resume"]),
    StepKind.OPEN_TOPIC: lambda t: _page("topic", t),
    StepKind.OPEN_CHARTS: lambda t: _page("topic", t),
    StepKind.OPEN_ANOMALIES: lambda t: _page("anomalies", []),
    StepKind.PROPOSE_ABORT: lambda t: _page("proposal-new", [], kind="transaction.abort", target=t[0]),
    StepKind.SEARCH_HANGING: lambda t: _page("hanging-transactions", [], all="1"),
    StepKind.OPEN_CHANGE: lambda t: _page("change", t),
    StepKind.OPEN_DOCUMENT_DRIFT: lambda t: _page("document-drift", t[:1]),
    StepKind.OPEN_HALF_MESSAGES: lambda t: _page("half-messages", t),
    StepKind.READ_TOPIC: lambda t: _page("messages", [], topic=t[0]),
    StepKind.OPEN_DELAYED_MESSAGES: lambda t: _page("delayed-messages", t),
    StepKind.OPEN_DEAD_LETTERS: lambda t: _page("dead-letters", t),
    StepKind.OPEN_SHARE_GROUP: lambda t: _page("share-group", t),
    StepKind.CHECK_PERMISSION: lambda t: _page("permissions", [], **dict(zip(PERMISSION, t, strict=True))),
    StepKind.OPEN_REJECTED: lambda t: _page("clients", [], q=t[0]) + "#refused",
    StepKind.OPEN_USER: lambda t: _page("user", t),
    StepKind.RESTART_TASK: lambda t: _page("connector-act", ["restart-task"], cluster=t[0], name=t[1], task=t[2]),
    StepKind.RESTART_FAILED: lambda t: _page("connector-restart", [], cluster=t[0], name=t[1]),
    StepKind.OPEN_CONNECTOR: lambda t: _page("connector", [], cluster=t[0], name=t[1]),
    StepKind.OPEN_CONNECT: lambda t: _page("connect", [], cluster=t[0]),
    StepKind.OPEN_CAUSE: lambda t: _page("alert", t),
}
ALL_TOPICS = {StepKind.DRAIN_BROKER, StepKind.MOVE_OFF_BROKER, StepKind.PLAN_AGAIN}
"""Steps that move replicas of every topic: their views reject users who see only some."""
READING = {StepKind.READ_RECORD, StepKind.READ_TOPIC}
"""Steps that show records of a topic, the first of their target."""
POSTED = {StepKind.START_PROCESS, StepKind.RESUME_ARCHIVE, StepKind.DEMOTE_BROKER, StepKind.RESTART_TASK}


LABELS: dict[str, str] = {
    StepKind.DRAIN_BROKER: gettext_lazy("Drain broker {0}"),
    StepKind.DEMOTE_BROKER: gettext_lazy("Move leadership off broker {0} (partitions: {1})"),
    StepKind.OPEN_BROKER: gettext_lazy("Open broker {0}"),
    StepKind.PROPOSE_ELECTION: gettext_lazy("Request unclean leader election of {0}-{1}"),
    StepKind.OPEN_PARTITION: gettext_lazy("Open partition {0}-{1}"),
    StepKind.RECOVER_REPLICA: gettext_lazy("Re-replicate {0}-{1} on broker {2}"),
    StepKind.MOVE_OFF_BROKER: gettext_lazy("Move replicas of {1} to brokers with more space"),
    StepKind.OPEN_MOVE: gettext_lazy("Open move {0}"),
    StepKind.OPEN_FILLING_MOVE: gettext_lazy("Open move {0}, which writes to this disk"),
    StepKind.OPEN_FILLING_MOVES: gettext_lazy("Open the {0} moves that write to this disk"),
    StepKind.ROLL_BACK_MOVE: gettext_lazy("Roll back move {0}"),
    StepKind.PLAN_AGAIN: gettext_lazy("Plan move {0} again"),
    StepKind.THROTTLE_MOVE: gettext_lazy("Edit the throttle of move {0}"),
    StepKind.READ_RECORD: gettext_lazy("Read {0}-{1} at offset {2}"),
    StepKind.RAISE_RETENTION: gettext_lazy("Edit retention of {0}"),
    StepKind.EDIT_CONFIGS: gettext_lazy("Edit configs of {0}"),
    StepKind.OPEN_GROUP: gettext_lazy("Open group {0}"),
    StepKind.OPEN_JOB: gettext_lazy("Open job {0}"),
    StepKind.RESUME_ARCHIVE: gettext_lazy("Resume archive {0}"),
    StepKind.OPEN_TOPIC: gettext_lazy("Compare topic {0}"),
    StepKind.OPEN_CHARTS: gettext_lazy("Open charts of {0}"),
    StepKind.OPEN_ANOMALIES: gettext_lazy("Open anomalies"),
    StepKind.PROPOSE_ABORT: gettext_lazy("Request abort in {0}"),
    StepKind.SEARCH_HANGING: gettext_lazy("Search all topics"),
    StepKind.OPEN_CHANGE: gettext_lazy("Open change {0}"),
    StepKind.OPEN_DOCUMENT_DRIFT: gettext_lazy("Compare the document of {1}"),
    StepKind.OPEN_HALF_MESSAGES: gettext_lazy("Open half messages of {0}"),
    StepKind.READ_TOPIC: gettext_lazy("Read {0}"),
    StepKind.OPEN_DELAYED_MESSAGES: gettext_lazy("Open delayed messages of {0}"),
    StepKind.OPEN_DEAD_LETTERS: gettext_lazy("Open dead letters of {0}"),
    StepKind.OPEN_SHARE_GROUP: gettext_lazy("Open share group {0}"),
    StepKind.CHECK_PERMISSION: gettext_lazy("Check the permission of {0}"),
    StepKind.OPEN_REJECTED: gettext_lazy("Open rejected requests of {0}"),
    StepKind.OPEN_USER: gettext_lazy("Open user {0}"),
    StepKind.RESTART_TASK: gettext_lazy("Restart task {2} of {1}"),
    StepKind.RESTART_FAILED: gettext_lazy("Restart what has failed of {1}"),
    StepKind.OPEN_CONNECTOR: gettext_lazy("Open connector {1}"),
    StepKind.OPEN_CONNECT: gettext_lazy("Open Connect cluster {0}"),
    StepKind.OPEN_CAUSE: gettext_lazy("Open the cause"),
}
"""Labels in other languages than English; {0} and the like are the target. The start of a process has START_LABELS."""

START_LABELS: dict[str, str] = {
    "zookeeper": gettext_lazy("Start ZooKeeper"),
    "worker": gettext_lazy("Start the worker"),
    "broker": gettext_lazy("Start broker {0}"),
    "controller": gettext_lazy("Start controller {0}"),
}
"""As `selectors.next_steps.START_LABELS`, in other languages than English."""


def _label(step: NextStep) -> str:
    if (get_language() or "en") == "en":
        return step.label
    if step.kind == StepKind.START_PROCESS:  # broker-3, zookeeper
        kind, __, number = step.target[0].partition("-")
        return START_LABELS[kind].format(number)
    return LABELS[step.kind].format(*step.target)


def _hint(step: NextStep) -> str:
    if step.kind != StepKind.OPEN_FILLING_MOVE:
        return ""
    __, broker_id, left_bytes = step.target
    if not left_bytes:
        return _("It copies replicas to broker {broker_id}; the size of what is left is unknown.").format(
            broker_id=broker_id
        )
    left = size_text(int(left_bytes))
    return _("It copies replicas to broker {broker_id}: {left} are left.").format(broker_id=broker_id, left=left)


def buttons(steps: Iterable[NextStep], user: User) -> Iterator[StepButton]:
    for step in steps:
        url, posts = _PAGES[step.kind](step.target), step.kind in POSTED
        if not may_be_shown(url) or (step.kind in ALL_TOPICS and current_visibility().limited):
            continue
        reads = read_denial(user, step.target[0]) if step.kind in READING else ""
        denied = reads or missing_role(user, url, posts=posts)
        if not (denied and current_visibility().limited):
            yield StepButton(_label(step), url, posts, translated(denied), _hint(step))
