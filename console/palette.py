"""Entries of the command palette: pages, operations and objects that match what the operator types. Each entry is a link.

Invariants: an entry matches if each typed word begins a word of its label. The number of queries does not depend on the size of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.http import urlencode

from controlplane.selectors import brokers, groups, moves, topics
from controlplane.selectors.saved_views import saved_views

ENTRIES_MAX = 14
"""Entries of one answer: as many as fit without scrolling."""
OBJECTS_MAX = 5
"""Entries of one kind of object."""
WORD = re.compile(r"[^\s:/]+")
PARTITION = re.compile(r"(.+?)[-/ ](\d{1,9})$")


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """`kind`: what the entry is, for display: page, operation, saved view, topic, partition, group, broker or move."""

    kind: str
    label: str
    address: str


PAGES = (
    ("Overview", "overview"),
    ("Brokers", "brokers"),
    ("Clients", "clients"),
    ("ZooKeeper", "zookeeper"),
    ("Leader elections", "leader-elections"),
    ("Rolling restarts", "restarts"),
    ("Topics", "topics"),
    ("Routes", "routes"),
    ("Consumer groups", "groups"),
    ("Share groups", "share-groups"),
    ("Offset resets", "offset-resets"),
    ("Transactions", "transactions"),
    ("Hanging transactions", "hanging-transactions"),
    ("Moves, reassignments", "moves"),
    ("Saved plans", "plans"),
    ("Approval requests", "proposals"),
    ("Messages", "messages"),
    ("ACLs", "acls"),
    ("Users", "users"),
    ("Permissions of a principal", "permissions"),
    ("Quotas", "quotas"),
    ("Masking rules", "masking"),
    ("API tokens", "tokens"),
    ("Archives", "pipeline"),
    ("Spark jobs", "spark-jobs"),
    ("Lake", "lake"),
    ("Alerts", "alerts"),
    ("Alert thresholds", "alert-thresholds"),
    ("Silences", "silences"),
    ("Notifications", "notifications"),
    ("Top topics, groups, clients, principals", "top"),
    ("Health checks", "health"),
    ("Anomalies of figures", "anomalies"),
    ("Self-healing", "healing"),
    ("Time travel: cluster at an earlier time", "time-travel"),
    ("Audit log", "audit"),
    ("Saved views", "saved-views"),
    ("REST API reference", "api-reference"),
)
"""(label, URL name)"""
OPERATIONS = (
    ("Create topic", "topic-new"),
    ("Move partitions", "move-new"),
    ("Rebalance brokers", "rebalance"),
    ("Rolling restart", "restart-new"),
    ("Elect preferred leaders", "leader-elections"),
    ("Create ACL", "acl-new"),
    ("Create user", "user-new"),
    ("Create quota", "quota-new"),
    ("Create route", "route-new"),
    ("Create API token", "token-new"),
    ("Create masking rule", "masking-new"),
    ("Create notification channel", "notification-new"),
    ("Query the lake", "lake-query"),
)
"""(label, URL name) of what operators may do. Each opens a form or a review."""


def entries(query: str, *, may_act: bool, user_id: int) -> list[PaletteEntry]:
    """The first entries for `query`: saved views of the user, then objects of this name before pages and operations, if the name is equal."""
    words = WORD.findall(query.lower())
    saved = [PaletteEntry("saved view", v.name, v.address) for v in saved_views(user_id)]
    fixed = [e for e in [*saved, *_fixed(may_act)] if matches(e.label, words)]
    if not words:
        return fixed[:ENTRIES_MAX]
    found = [*_brokers(words, may_act), *_objects(query.strip(), may_act)]
    exact = [e for e in found if e.label.lower() == query.strip().lower()]
    return list(dict.fromkeys([*exact, *fixed, *found]))[:ENTRIES_MAX]


def matches(label: str, words: Iterable[str]) -> bool:
    known = [w.lower() for w in WORD.findall(label)]
    return all(any(k.startswith(w) for k in known) for w in words)


def _fixed(may_act: bool) -> Iterator[PaletteEntry]:
    for label, name in PAGES:
        yield PaletteEntry("page", label, reverse(name))
    for label, name in OPERATIONS if may_act else ():
        yield PaletteEntry("operation", label, reverse(name))


def _brokers(words: list[str], may_act: bool) -> Iterator[PaletteEntry]:
    found = (e for b in brokers.broker_list() for e in _broker(b, may_act) if matches(e.label, words))
    for _, entry in zip(range(ENTRIES_MAX), found, strict=False):
        yield entry


def _broker(b: Any, may_act: bool) -> Iterator[PaletteEntry]:
    name, number = f"Broker {b.broker_id}", b.broker_id
    yield PaletteEntry("broker", f"{name} {b.host}:{b.port}", reverse("broker", args=[number]))
    yield PaletteEntry("page", f"{name}: configs", reverse("broker-configs", args=[number]))
    yield PaletteEntry("page", f"{name}: log directories", reverse("log-directories", args=[number]))
    yield PaletteEntry("page", f"{name}: clients", f"{reverse('clients')}?broker={number}")
    if may_act:
        yield PaletteEntry("operation", f"{name}: drain", reverse("broker-act", args=[number, "drain"]))
        yield PaletteEntry("operation", f"{name}: rolling restart", f"{reverse('restart-new')}?b={number}")


def _objects(query: str, may_act: bool) -> Iterator[PaletteEntry]:
    found = topics.topic_list(query=query, internal=True, per_page=OBJECTS_MAX).rows
    for t in found:
        yield PaletteEntry("topic", t.name, reverse("topic", args=[t.name]))
    for t in found:
        if t.name == query:
            yield PaletteEntry("page", f"{t.name}: messages", f"{reverse('messages')}?{urlencode({'topic': t.name})}")
            if may_act:
                yield PaletteEntry("operation", f"{t.name}: alter", reverse("topic-alter", args=[t.name]))
    partition = PARTITION.match(query)
    if partition is not None:
        name, index = partition[1], int(partition[2])
        for t in topics.topic_list(query=name, internal=True, per_page=OBJECTS_MAX).rows:
            if t.name == name and index < t.partitions:
                yield PaletteEntry("partition", f"{name}-{index}", reverse("partition", args=[name, index]))
    for g in groups.group_list(query=query, per_page=OBJECTS_MAX).rows:
        yield PaletteEntry("group", g.group_id, reverse("group", args=[g.group_id]))
    for m in moves.move_list(query=query, per_page=OBJECTS_MAX).rows:
        yield PaletteEntry("move", f"Move {m.id}", reverse("move", args=[m.id]))
