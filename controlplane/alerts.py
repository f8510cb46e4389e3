"""What is wrong, and what to do about it: pure. From facts to alerts, and from those and the open rows to what begins and ends.

Laws: the list of kinds is closed, and each says what to do next; an alert's identity is (kind, subject), so that it keeps its beginning while its
figures change; one that comes back soon after it ended never ended. Called by `services.alerts`. Must not come in: clocks, rows, links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.words import some

AT_RISK, DEGRADED = "at_risk", "degraded"
"""Severities, in the words of the health line: data is at risk or refused; or something lacks that nobody feels yet."""

FLAP_SECONDS = 60.0
"""An alert that is back within this time goes on from its first beginning: a follower at its limit would else be twenty alerts."""

FREE_LOW, FREE_LEAST = 0.10, 0.03
"""Shares of a broker's roomiest directory: below the first it is told, below the second it is grave."""

NAMES_MAX = 3
"""Partitions or groups named in a sentence; the rest is counted."""

GRAVE_VERDICTS = ("OVERTAKEN", "STOP", "STALL")
"""Of groups: those that are told."""


@dataclass(frozen=True, slots=True)
class Alert:
    """`subject` is a broker's, move's or job's number, a verdict, or "" where there is one of the kind only."""

    kind: str
    subject: str
    severity: str
    text: str
    do: str


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    broker_id: int
    alive: bool
    answered: bool | None
    replicas: int
    total_bytes: int | None = None
    free_bytes: int | None = None
    dirs_failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """A move that works, or one that failed and was not rolled back. `needs_bytes_per_s`: it will not finish with less.
    `causes`: of pace.CAUSES, why the stuck ones stand still."""

    move_id: int
    state: str
    stuck: int
    needs_bytes_per_s: int | None = None
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """Counts with the first names of what they count; `under_replicated` without those that are offline. `zookeeper` None = not known. `archives`: jobs that failed lately, with their notes."""

    zookeeper: bool | None = None
    controller: int | None = None
    brokers: tuple[BrokerFacts, ...] = ()
    offline: tuple[int, tuple[str, ...]] = (0, ())
    under_min_isr: tuple[int, tuple[str, ...]] = (0, ())
    under_replicated: tuple[int, tuple[str, ...]] = (0, ())
    damaged: tuple[int, tuple[str, ...]] = (0, ())
    drift: int = 0
    verdicts: Mapping[str, tuple[int, tuple[str, ...]]] | None = None
    moves: tuple[MoveFacts, ...] = ()
    changes_unknown: int = 0
    archives: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One trouble of a kind: whose, in which words, and how grave where that is its own."""

    subject: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """`text` and `do` are filled with a case's words, and with `down`: the brokers that are down."""

    name: str
    severity: str
    cases: Callable[[Facts], Iterable[Case]]
    text: str
    do: str


def alerts(facts: Facts) -> list[Alert]:
    """Gravest first, in the table's order within a severity."""
    down = [b.broker_id for b in facts.brokers if not b.alive]
    always = {"down": f" (down now: {', '.join(map(str, down))})" if down else ""}
    found = []
    for kind in KINDS:
        for case in kind.cases(facts):
            words = always | dict(case.words)
            severity = case.severity or kind.severity
            found.append(Alert(kind.name, case.subject, severity, kind.text.format(**words), kind.do.format(**words)))
    return sorted(found, key=lambda a: a.severity != AT_RISK)


# -- how each is found ------------------------------------------------------------------------------------------------------------


def _once(wrong: object, **words: str) -> list[Case]:
    return [Case("", words)] if wrong else []


def _counted(counted: tuple[int, Sequence[str]], one: str, many: str, subject: str = "") -> list[Case]:
    """`what` is `2 partitions (orders-1, orders-2)`: the names are few, the count is whole; the other words follow its number."""
    count, names = counted
    if not count:
        return []
    rest = count - len(names)
    listed = f" ({', '.join(names)}{f' and {rest:,} more' if rest > 0 else ''})" if names else ""
    single = ("has", "is", "was", "it", "its", "s")
    plural = ("have", "are", "were", "they", "their", "")
    words = dict(zip(single, single if count == 1 else plural, strict=True))
    return [Case(subject, {"what": some(count, one, many) + listed, **words})]


def _groups(facts: Facts, verdict: str) -> list[Case]:
    return _counted((facts.verdicts or {}).get(verdict, (0, ())), "group", "groups", verdict)


def _lagging_copies(facts: Facts) -> list[Case]:
    """With a broker down its alert says it all."""
    if any(not b.alive for b in facts.brokers):
        return []
    return _counted(facts.under_replicated, "partition", "partitions")


def _brokers_down(facts: Facts) -> list[Case]:
    return [
        Case(str(b.broker_id), {"id": str(b.broker_id), "replicas": some(b.replicas, "replica")})
        for b in facts.brokers
        if not b.alive and b.replicas
    ]


def _brokers_silent(facts: Facts) -> list[Case]:
    return [Case(str(b.broker_id), {"id": str(b.broker_id)}) for b in facts.brokers if b.alive and b.answered is False]


def _disks_failed(facts: Facts) -> list[Case]:
    return [
        Case(
            str(b.broker_id),
            {
                "id": str(b.broker_id),
                "dirs": f"{some(len(b.dirs_failed), 'directory', 'directories')}: {', '.join(b.dirs_failed)}",
            },
        )
        for b in facts.brokers
        if b.alive and b.dirs_failed
    ]


def _disks_low(facts: Facts) -> list[Case]:
    out = []
    for b in facts.brokers:
        if b.alive and b.total_bytes and b.free_bytes is not None and b.free_bytes < b.total_bytes * FREE_LOW:
            grave = AT_RISK if b.free_bytes < b.total_bytes * FREE_LEAST else ""
            free = f"{100 * b.free_bytes / b.total_bytes:.0f}"
            out.append(Case(str(b.broker_id), {"id": str(b.broker_id), "free": free}, grave))
    return out


def _moves(facts: Facts, *, failed: bool) -> list[Case]:
    return [
        Case(str(m.move_id), {"id": str(m.move_id), "parts": some(m.stuck, "partition"), "is": "is" if m.stuck == 1 else "are",
                              "was": "was" if m.stuck == 1 else "were",
                              "why": f" ({', '.join(m.causes).replace('_', ' ')})" if m.causes else ""})
        for m in facts.moves
        if (m.state == "failed") == failed and (m.stuck or failed)
    ]  # fmt: skip


def _moves_outrun(facts: Facts) -> list[Case]:
    return [
        Case(str(m.move_id), {"id": str(m.move_id), "needs": f"{m.needs_bytes_per_s:,}"})
        for m in facts.moves
        if m.needs_bytes_per_s is not None
    ]


def _archives_failed(facts: Facts) -> list[Case]:
    return [Case(str(job), {"id": str(job), "note": note or "its page says why"}) for job, note in facts.archives]


KINDS = (
    Kind("partitions_offline", AT_RISK, lambda f: _counted(f.offline, "partition", "partitions"),
         "{what} {has} no leader: nobody can write or read there.",
         "Start a broker that was in sync last{down}. If its disk is gone for good, propose an unclean election on the partition's page: it shows what would be lost."),
    Kind("partitions_under_min_isr", AT_RISK, lambda f: _counted(f.under_min_isr, "partition", "partitions"),
         "{what} {has} fewer replicas in sync than min.insync.replicas: acks=all is refused there.",
         "Bring the missing replicas back{down}. Where they are gone for good, move the partitions to other brokers."),
    Kind("no_controller", AT_RISK, lambda f: _once(f.zookeeper and f.controller is None),
         "No controller holds the seat: nobody elects a leader when a broker dies.",
         "Start one: `manage.py controller`; its log says why it does not take the seat."),
    Kind("zookeeper_away", DEGRADED, lambda f: _once(f.zookeeper is False),
         "ZooKeeper does not answer the console: no elections and no changes until it is back; traffic goes on.",
         "Start ZooKeeper, or mend the way to it. If its data is lost: stop all, `manage.py rebuild` (docs/how-to/disaster.md)."),
    Kind("broker_down", DEGRADED, _brokers_down,
         "Broker {id} is down; {replicas} of it are missing.",
         "Start it. If it is gone for good, drain it: its replicas are copied to the others."),
    Kind("broker_silent", DEGRADED, _brokers_silent,
         "Broker {id} is alive for the cluster and does not answer the console: its figures grow old.",
         "Look at its log and load, and at the way from the console to it. Its page says whether a restart is safe."),
    Kind("disk_failed", AT_RISK, _disks_failed,
         "Broker {id} has lost {dirs}.",
         "Its copies there are out. Change the disk and restart the broker, which fetches them anew; or drain it."),
    Kind("disk_low", DEGRADED, _disks_low,
         "Broker {id} has {free} % of its disk free; when it is full it refuses writes.",
         "Move partitions off it (Moves, or a rebalance by disk), shorten a topic's retention, or add room."),
    Kind("partitions_under_replicated", DEGRADED, _lagging_copies,
         "{what} {has} a replica out of sync though every broker is alive.",
         "It may be catching up; see whether the count falls. If not, look for a slow disk or network on the broker that lags, or rebuild the replica on the partition's page."),
    Kind("copies_damaged", DEGRADED, lambda f: _counted(f.damaged, "copy", "copies"),
         "{what} {is} damaged, as brokers tell.",
         "Look at Moves, Damaged copies, and rebuild each from its leader; a copy that is the only one in sync is never thrown away."),
    Kind("move_failed", DEGRADED, lambda f: _moves(f, failed=True),
         "Move {id} has failed: {parts} {was} refused.",
         "Its page says why of each. Roll it back, or plan the rest again."),
    Kind("move_stuck", DEGRADED, lambda f: _moves(f, failed=False),
         "Move {id}: {parts} {is} stuck{why}.",
         "Its page names the cause of each and what would help."),
    Kind("move_will_not_finish", DEGRADED, _moves_outrun,
         "Move {id} will not finish: more comes in than is copied.",
         "Give it more than {needs} bytes/s per broker, slow the producers, or copy fewer partitions at a time."),
    Kind("groups", AT_RISK, lambda f: _groups(f, "OVERTAKEN"),
         "{what} {was} overtaken: records were deleted before {it} read them.",
         "What is gone stays gone for them. Raise the topic's retention, then speed the consumers up."),
    Kind("groups", DEGRADED, lambda f: _groups(f, "STOP"),
         "{what} {has} stopped: {it} {has} lag and commit{s} nothing.",
         "Look whether its members run, and at their logs; the group's page names the last known."),
    Kind("groups", DEGRADED, lambda f: _groups(f, "STALL"),
         "{what} stand{s} still: {its} members commit the same offsets again and again.",
         "A record may be failing there: look at it under Messages, at the committed offset, and at the consumer's log."),
    Kind("archive_failed", DEGRADED, _archives_failed,
         "Archive job {id} has failed: {note}",
         "Mend the cause that its page names, then start it again: it goes on where it stopped."),
    Kind("drift", DEGRADED, lambda f: _once(f.drift, topics=some(f.drift, "topic differs", "topics differ")),
         "{topics} between database and cluster.",
         "Nothing is done about it by itself. Look at Topics, drift, and adopt the cluster's state where it is the right one."),
    Kind("changes_unknown", DEGRADED, lambda f: _once(f.changes_unknown, changes=some(f.changes_unknown, "change")),
         "Of {changes} of the last day nobody has read back whether they were done.",
         "Look at Audit, unknown: compare with the cluster, then do it again or leave it."),
)  # fmt: skip
"""Every alert that is made of rows, the gravest of a severity first; that the observer itself is silent, no row can say (`selectors.alerts`)."""


# -- what begins, what ends -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Known:
    """A row: open (`ended_s` None), or ended lately enough to be taken up again. Seconds."""

    id: int
    kind: str
    subject: str
    severity: str
    text: str
    do: str
    ended_s: float | None


@dataclass(frozen=True, slots=True)
class Turn:
    """`begins`: new rows. `goes_on`: rows with other words, or taken up again. `ends`: ids."""

    begins: tuple[Alert, ...]
    goes_on: tuple[tuple[int, Alert], ...]
    ends: tuple[int, ...]


def turn(known: Sequence[Known], found: Sequence[Alert], now_s: float) -> Turn:
    rows = {(k.kind, k.subject): k for k in known if k.ended_s is None or now_s - k.ended_s <= FLAP_SECONDS}
    begins: list[Alert] = []
    goes_on: list[tuple[int, Alert]] = []
    for a in found:
        row = rows.pop((a.kind, a.subject), None)
        if row is None:
            begins.append(a)
        elif row.ended_s is not None or (row.severity, row.text, row.do) != (a.severity, a.text, a.do):
            goes_on.append((row.id, a))
    return Turn(tuple(begins), tuple(goes_on), tuple(k.id for k in rows.values() if k.ended_s is None))
