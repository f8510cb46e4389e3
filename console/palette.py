"""Entries of the command palette: pages, operations and objects that match what the operator types. Each entry is a link.

Invariants: an entry matches if each typed word begins a word of its label or one of its synonyms (`console.palette_synonyms`). The number of queries does not
depend on the size of the cluster, and has a limit for a long text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console.access_rules import may_be_seen
from console.palette_synonyms import FEATURES, SYNONYMS
from controlplane.selectors import brokers, dead_letters, delayed_messages, groups, half_messages, moves, topics
from controlplane.selectors.saved_views import saved_views
from controlplane.selectors.visibility import current_visibility

ENTRIES_MAX = 14
"""Maximum number of entries of one response: as many as fit without scrolling."""
OBJECTS_MAX = 5
"""Maximum number of entries of one kind of object."""
NAME_WORDS_MAX = 3
"""Maximum number of typed words that may be the name of a topic or group of which an operation is typed."""
WORD = re.compile(r"[^\s:/]+")
PARTITION = re.compile(r"(.+?)[-/ ](\d{1,9})$")


@dataclass(frozen=True, slots=True)
class PaletteEntry:
    """`kind`: what the entry is, for display: page, operation, saved view, topic, partition, group, broker or move. `synonyms`: further
    words by which a fixed entry is found, with its label in English, so that it is found in each language."""

    kind: str
    label: str
    address: str
    synonyms: str = ""


PAGES = (
    (gettext_noop("Overview"), "overview"),
    (gettext_noop("Brokers"), "brokers"),
    (gettext_noop("Clients"), "clients"),
    ("ZooKeeper", "zookeeper"),
    (gettext_noop("Leader elections"), "leader-elections"),
    (gettext_noop("Rolling restarts"), "restarts"),
    (gettext_noop("Topics"), "topics"),
    (gettext_noop("Undecided half messages"), "undecided-half-messages"),
    (gettext_noop("Routes"), "routes"),
    (gettext_noop("Schema registry"), "schema-subjects"),
    (gettext_noop("Kafka Connect, connectors"), "connect"),
    (gettext_noop("Cluster documents, declared state"), "documents"),
    (gettext_noop("Consumer groups"), "groups"),
    (gettext_noop("Share groups"), "share-groups"),
    (gettext_noop("Offset resets"), "offset-resets"),
    (gettext_noop("Transactions"), "transactions"),
    (gettext_noop("Hanging transactions"), "hanging-transactions"),
    (gettext_noop("Moves, reassignments"), "moves"),
    (gettext_noop("Saved plans"), "plans"),
    (gettext_noop("Approval requests"), "proposals"),
    (gettext_noop("Messages"), "messages"),
    (gettext_noop("ACLs"), "acls"),
    (gettext_noop("Users"), "users"),
    (gettext_noop("Permissions of a principal"), "permissions"),
    (gettext_noop("Quotas"), "quotas"),
    (gettext_noop("Masking rules"), "masking"),
    (gettext_noop("Role bindings"), "role-bindings"),
    (gettext_noop("API tokens"), "tokens"),
    (gettext_noop("Archives"), "pipeline"),
    (gettext_noop("Spark jobs"), "spark-jobs"),
    (gettext_noop("Lake"), "lake"),
    (gettext_noop("Alerts"), "alerts"),
    (gettext_noop("Alert thresholds"), "alert-thresholds"),
    (gettext_noop("Silences"), "silences"),
    (gettext_noop("Notifications"), "notifications"),
    (gettext_noop("Top topics, groups, clients, principals"), "top"),
    (gettext_noop("Health checks"), "health"),
    (gettext_noop("Anomalies of metrics"), "anomalies"),
    ("Self-healing", "healing"),
    (gettext_noop("Time travel: cluster at an earlier time"), "time-travel"),
    (gettext_noop("Audit log"), "audit"),
    (gettext_noop("Saved views"), "saved-views"),
    (gettext_noop("REST API reference"), "api-reference"),
)
"""(label, URL name)"""
OPERATIONS = (
    (gettext_noop("Create topic"), "topic-new"),
    (gettext_noop("Compare or apply a document"), "document-compare"),
    (gettext_noop("Move partitions"), "move-new"),
    (gettext_noop("Rebalance brokers"), "rebalance"),
    (gettext_noop("Rolling restart"), "restart-new"),
    (gettext_noop("Elect preferred leaders"), "leader-elections"),
    (gettext_noop("Create ACL"), "acl-new"),
    (gettext_noop("Create user"), "user-new"),
    (gettext_noop("Create quota"), "quota-new"),
    (gettext_noop("Create route"), "route-new"),
    (gettext_noop("Create connector"), "connector-new"),
    (gettext_noop("Create API token"), "token-new"),
    (gettext_noop("Create masking rule"), "masking-new"),
    (gettext_noop("Create role binding"), "role-binding-new"),
    (gettext_noop("Create notification channel"), "notification-new"),
    (gettext_noop("Query the lake"), "lake-query"),
)
"""(label, URL name) of what operators may do. Each opens a form or a review."""


def entries(query: str, *, may_act: bool, user_id: int) -> list[PaletteEntry]:
    """The first entries for `query`: saved views of the user, then objects of this name before pages and operations, if the name is equal."""
    words = WORD.findall(query.lower())
    saved = [PaletteEntry(_("saved view"), v.name, v.address) for v in saved_views(user_id) if matches(v.name, words)]
    fixed = [*saved, *fixed_entries(query, may_act=may_act)]
    if not words:
        return fixed[:ENTRIES_MAX]
    found = [*_brokers(words, may_act), *_objects(query.strip(), may_act), *_operations_on_objects(words, may_act)]
    exact = [e for e in found if e.label.lower() == query.strip().lower()]
    return list(dict.fromkeys([*exact, *fixed, *found]))[:ENTRIES_MAX]


def matches(label: str, words: Iterable[str]) -> bool:
    known = [w.lower() for w in WORD.findall(label)]
    return all(any(k.startswith(w) or (not w.isascii() and w in k) for k in known) for w in words)


def fixed_entries(query: str, *, may_act: bool) -> list[PaletteEntry]:
    """The pages and operations that match: first by their label, then by a synonym."""
    words = WORD.findall(query.lower())
    by_label, by_synonym = [], []
    for entry in _fixed_entries(may_act):
        if matches(entry.label, words):
            by_label.append(entry)
        elif matches(f"{entry.label} {entry.synonyms}", words):
            by_synonym.append(entry)
    return by_label + by_synonym


def _fixed_entries(may_act: bool) -> Iterator[PaletteEntry]:
    for kind, entries_of_kind in ((_("page"), PAGES), (_("operation"), OPERATIONS if may_act else ())):
        for label, name in entries_of_kind:
            if may_be_seen(current_visibility(), name):
                synonyms = SYNONYMS.get(name, "")
                yield PaletteEntry(
                    kind, _(label), reverse(name), f"{label} {synonyms} {_(synonyms) if synonyms else ''}"
                )
    for label, name, query, synonyms in FEATURES:
        if may_be_seen(current_visibility(), name):
            address = f"{reverse(name)}?{urlencode(query)}"
            yield PaletteEntry(_("page"), _(label), address, f"{label} {synonyms} {_(synonyms)}")


def _brokers(words: list[str], may_act: bool) -> Iterator[PaletteEntry]:
    found = (
        e
        for b in sorted(
            brokers.visible_brokers(), key=lambda b: str(b.broker_id) not in words
        )  # the port may begin with the number
        for e in _broker(b, may_act)
        if matches(f"{e.label} broker {b.broker_id}", words)
    )
    yield from islice(found, ENTRIES_MAX)


def _broker(b: brokers.BrokerRow, may_act: bool) -> Iterator[PaletteEntry]:
    name, number = _("Broker {broker_id}").format(broker_id=b.broker_id), b.broker_id
    found = [
        (_("broker"), f"{name} {b.host}:{b.port}", "broker", reverse("broker", args=[number])),
        (_("page"), _("{name}: configs"), "broker-configs", reverse("broker-configs", args=[number])),
        (_("page"), _("{name}: log directories"), "log-directories", reverse("log-directories", args=[number])),
        (_("page"), _("{name}: clients"), "clients", f"{reverse('clients')}?broker={number}"),
    ]
    if may_act:
        found += [
            (_("operation"), _("{name}: drain"), "restart-new", reverse("broker-act", args=[number, "drain"])),
            (_("operation"), _("{name}: rolling restart"), "restart-new", f"{reverse('restart-new')}?b={number}"),
        ]
    for kind, label, page, address in found:
        if may_be_seen(current_visibility(), page):
            yield PaletteEntry(kind, label.format(name=name), address)


def _edit_configs(topic: str) -> PaletteEntry:
    synonyms = gettext_noop("alter change retention partitions")
    return PaletteEntry(
        _("operation"),
        _("{name}: edit configs").format(name=topic),
        reverse("topic-alter", args=[topic]),
        f"edit configs {synonyms} {_(synonyms)}",
    )


def _reset_offsets(group_id: str) -> PaletteEntry:
    synonyms = gettext_noop("rewind replay seek skip")
    return PaletteEntry(
        _("operation"),
        _("{name}: reset offsets").format(name=group_id),
        f"{reverse('offset-reset-new')}?{urlencode({'group': group_id})}",
        f"reset offsets {synonyms} {_(synonyms)}",
    )


def _operations_on_objects(words: list[str], may_act: bool) -> Iterator[PaletteEntry]:
    """Operations on the topics and groups that one of the words names, where the others say what to do: "reset billing"."""
    if not may_act or len(words) < 2:
        return
    for word in words[:NAME_WORDS_MAX]:
        found = [_reset_offsets(g.group_id) for g in groups.group_list(query=word, per_page=OBJECTS_MAX).rows]
        found += [_edit_configs(t.name) for t in topics.topic_list(query=word, per_page=OBJECTS_MAX).rows]
        yield from (e for e in found if matches(f"{e.label} {e.synonyms}", words))


def _pages_of_topic(name: str) -> Iterator[PaletteEntry]:
    of_topic = urlencode({"topic": name})
    found = [
        (_("{name}: messages"), "messages", f"{reverse('messages')}?{of_topic}"),
        (_("{name}: clients"), "clients", f"{reverse('clients')}?{of_topic}"),
    ]
    if dead_letters.dead_letter_topic(name):
        found.append((_("{name}: dead letters"), "dead-letters", reverse("dead-letters", args=[name])))
    if target := delayed_messages.topic_of(name):
        found.append((_("{name}: delayed messages"), "delayed-messages", reverse("delayed-messages", args=[target])))
    if target := half_messages.topic_of(name):
        found.append((_("{name}: half messages"), "half-messages", reverse("half-messages", args=[target])))
    for label, page, address in found:
        if may_be_seen(current_visibility(), page):
            yield PaletteEntry(_("page"), label.format(name=name), address)


def _objects(query: str, may_act: bool) -> Iterator[PaletteEntry]:
    found = topics.topic_list(query=query, internal=True, per_page=OBJECTS_MAX).rows
    for topic in found:
        yield PaletteEntry(_("topic"), topic.name, reverse("topic", args=[topic.name]))
    for topic in found:
        if topic.name == query:
            yield from _pages_of_topic(topic.name)
            if may_act:
                yield _edit_configs(topic.name)
    partition = PARTITION.match(query)
    if partition is not None:
        name, index = partition[1], int(partition[2])
        for topic in topics.topic_list(query=name, internal=True, per_page=OBJECTS_MAX).rows:
            if topic.name == name and index < topic.partitions:
                yield PaletteEntry("partition", f"{name}-{index}", reverse("partition", args=[name, index]))
    for g in groups.group_list(query=query, per_page=OBJECTS_MAX).rows:
        yield PaletteEntry(_("group"), g.group_id, reverse("group", args=[g.group_id]))
    for m in moves.move_list(query=query, per_page=OBJECTS_MAX).rows:
        yield PaletteEntry(_("move"), _("Move {id}").format(id=m.id), reverse("move", args=[m.id]))
