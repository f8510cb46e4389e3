"""What is wrong, and what to do about it: pure. From facts to alerts, and from those and the open rows to what begins and ends.

Laws: the list of kinds is closed, and each says what to do next; an alert's identity is (kind, subject), so that it keeps its beginning while its
figures change; one that comes back soon after it ended never ended. Called by `services.alerts`. Must not come in: clocks, rows, links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.words import some

AT_RISK, DEGRADED = "at_risk", "degraded"
"""Severities, in the words of the health line: data is at risk or refused; or something lacks that nobody feels yet."""

FLAP_SECONDS = 60.0
"""An alert that is back within this time goes on from its first beginning: a follower at its limit would else be twenty alerts."""

FREE_LOW, FREE_LEAST = 0.10, 0.03
"""Shares of a broker's roomiest directory: below the first it is told, below the second it is grave."""

NAMES_MAX = 3
"""Partitions or groups named in a sentence; the rest is counted."""

GRAVE_VERDICTS = {"OVERTAKEN": AT_RISK, "STOP": DEGRADED, "STALL": DEGRADED}


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
    """A move that works, or one that failed and was not rolled back. `needs_bytes_per_s`: it will not finish with less."""

    move_id: int
    state: str
    stuck: int
    needs_bytes_per_s: int | None = None


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


def alerts(facts: Facts) -> list[Alert]:
    """Gravest first, in a fixed order within a severity."""
    found = [*_cluster(facts), *_partitions(facts), *_brokers(facts), *_work(facts), *_groups(facts)]
    return sorted(found, key=lambda a: a.severity != AT_RISK)


def _cluster(facts: Facts) -> list[Alert]:
    out = []
    if facts.zookeeper is False:
        out.append(
            Alert(
                "zookeeper_away", "", DEGRADED, "ZooKeeper does not answer the console: no elections and no changes until it is back; traffic goes on.",
                "Start ZooKeeper, or mend the way to it. If its data is lost: stop all, `manage.py rebuild` (docs/how-to/disaster.md).",
            )
        )  # fmt: skip
    if facts.zookeeper and facts.controller is None:
        out.append(
            Alert(
                "no_controller", "", AT_RISK, "No controller holds the seat: nobody elects a leader when a broker dies.",
                "Start one: `manage.py controller`; its log says why it does not take the seat.",
            )
        )  # fmt: skip
    if facts.drift:
        out.append(
            Alert(
                "drift", "", DEGRADED, f"{some(facts.drift, 'topic differs', 'topics differ')} between database and cluster.",
                "Nothing is done about it by itself. Look at Topics, drift, and adopt the cluster's state where it is the right one.",
            )
        )  # fmt: skip
    return out


def _partitions(facts: Facts) -> list[Alert]:
    out = []
    down = [b.broker_id for b in facts.brokers if not b.alive]
    if facts.offline[0]:
        out.append(
            Alert(
                "partitions_offline", "", AT_RISK, f"{_counted(facts.offline, 'partition', 'partitions')} {_has(facts.offline)} no leader: nobody can write or read there.",
                f"Start a broker that was in sync last{_of(down)}. If its disk is gone for good, propose an unclean election on the partition's page: it shows what would be lost.",
            )
        )  # fmt: skip
    if facts.under_min_isr[0]:
        out.append(
            Alert(
                "partitions_under_min_isr", "", AT_RISK,
                f"{_counted(facts.under_min_isr, 'partition', 'partitions')} {_has(facts.under_min_isr)} fewer replicas in sync than min.insync.replicas: acks=all is refused there.",
                f"Bring the missing replicas back{_of(down)}. Where they are gone for good, move the partitions to other brokers.",
            )
        )  # fmt: skip
    if facts.under_replicated[0] and not down:
        # With a broker down this is its alert: it says it all.
        out.append(
            Alert(
                "partitions_under_replicated", "", DEGRADED,
                f"{_counted(facts.under_replicated, 'partition', 'partitions')} {_has(facts.under_replicated)} a replica out of sync though every broker is alive.",
                "It may be catching up; see whether the count falls. If not, look for a slow disk or network on the broker that lags, or rebuild the replica on the partition's page.",
            )
        )  # fmt: skip
    if facts.damaged[0]:
        out.append(
            Alert(
                "copies_damaged", "", DEGRADED, f"{_counted(facts.damaged, 'copy', 'copies')} {'is' if facts.damaged[0] == 1 else 'are'} damaged, as brokers tell.",
                "Look at Moves, Damaged copies, and rebuild each from its leader; a copy that is the only one in sync is never thrown away.",
            )
        )  # fmt: skip
    return out


def _brokers(facts: Facts) -> list[Alert]:
    out = []
    for b in facts.brokers:
        number = str(b.broker_id)
        if not b.alive:
            if b.replicas:
                out.append(
                    Alert(
                        "broker_down", number, DEGRADED, f"Broker {number} is down; {some(b.replicas, 'replica', 'replicas')} of it are missing.",
                        "Start it. If it is gone for good, drain it: its replicas are copied to the others.",
                    )
                )  # fmt: skip
            continue
        if b.answered is False:
            out.append(
                Alert(
                    "broker_silent", number, DEGRADED, f"Broker {number} is alive for the cluster and does not answer the console: its figures grow old.",
                    "Look at its log and load, and at the way from the console to it. Its page says whether a restart is safe.",
                )
            )  # fmt: skip
        if b.dirs_failed:
            out.append(
                Alert(
                    "disk_failed", number, AT_RISK, f"Broker {number} has lost {some(len(b.dirs_failed), 'directory', 'directories')}: {', '.join(b.dirs_failed)}.",
                    "Its copies there are out. Change the disk and restart the broker, which fetches them anew; or drain it.",
                )
            )  # fmt: skip
        if b.total_bytes and b.free_bytes is not None and b.free_bytes < b.total_bytes * FREE_LOW:
            grave = b.free_bytes < b.total_bytes * FREE_LEAST
            out.append(
                Alert(
                    "disk_low", number, AT_RISK if grave else DEGRADED,
                    f"Broker {number} has {100 * b.free_bytes / b.total_bytes:.0f} % of its disk free; when it is full it refuses writes.",
                    "Move partitions off it (Moves, or a rebalance by disk), shorten a topic's retention, or add room.",
                )
            )  # fmt: skip
    return out


def _work(facts: Facts) -> list[Alert]:
    out = []
    for m in facts.moves:
        number = str(m.move_id)
        if m.state == "failed":
            out.append(
                Alert(
                    "move_failed", number, DEGRADED, f"Move {number} has failed: {some(m.stuck, 'partition was', 'partitions were')} refused.",
                    "Its page says why of each. Roll it back, or plan the rest again.",
                )
            )  # fmt: skip
        elif m.stuck:
            out.append(
                Alert(
                    "move_stuck", number, DEGRADED, f"Move {number}: {some(m.stuck, 'partition is', 'partitions are')} stuck.",
                    "Its page names the cause of each and what would help.",
                )
            )  # fmt: skip
        if m.needs_bytes_per_s is not None:
            out.append(
                Alert(
                    "move_will_not_finish", number, DEGRADED, f"Move {number} will not finish: more comes in than is copied.",
                    f"Give it more than {m.needs_bytes_per_s:,} bytes/s per broker, slow the producers, or copy fewer partitions at a time.",
                )
            )  # fmt: skip
    if facts.changes_unknown:
        out.append(
            Alert(
                "changes_unknown", "", DEGRADED, f"Of {some(facts.changes_unknown, 'change', 'changes')} of the last day nobody has read back whether they were done.",
                "Look at Audit, unknown: compare with the cluster, then do it again or leave it.",
            )
        )  # fmt: skip
    out += [
        Alert(
            "archive_failed", str(job_id), DEGRADED, f"Archive job {job_id} has failed: {note or 'its page says why'}",
            "Mend the cause that its page names, then start it again: it goes on where it stopped.",
        )
        for job_id, note in facts.archives
    ]  # fmt: skip
    return out


def _groups(facts: Facts) -> list[Alert]:
    said = {
        "OVERTAKEN": ("was overtaken: records were deleted before it read them", "were overtaken: records were deleted before they read them",
                      "What is gone stays gone for them. Raise the topic's retention, then speed the consumers up."),
        "STOP": ("has stopped: it has lag and commits nothing", "have stopped: they have lag and commit nothing",
                 "Look whether its members run, and at their logs; the group's page names the last known."),
        "STALL": ("stands still: its members commit the same offsets again and again", "stand still: their members commit the same offsets again and again",
                  "A record may be failing there: look at it under Messages, at the committed offset, and at the consumer's log."),
    }  # fmt: skip
    out = []
    for verdict, severity in GRAVE_VERDICTS.items():
        counted = (facts.verdicts or {}).get(verdict, (0, ()))
        if counted[0]:
            one, many, do = said[verdict]
            out.append(
                Alert(
                    "groups",
                    verdict,
                    severity,
                    f"{_counted(counted, 'group', 'groups')} {one if counted[0] == 1 else many}.",
                    do,
                )
            )
    return out


def _counted(counted: tuple[int, Sequence[str]], one: str, many: str) -> str:
    """`2 partitions (orders-1, orders-2)`; the names are few, the count is whole."""
    count, names = counted
    rest = count - len(names)
    listed = f" ({', '.join(names)}{f' and {rest:,} more' if rest > 0 else ''})" if names else ""
    return f"{some(count, one, many)}{listed}"


def _has(counted: tuple[int, Sequence[str]]) -> str:
    return "has" if counted[0] == 1 else "have"


def _of(down: Sequence[int]) -> str:
    return f" (down now: {', '.join(map(str, down))})" if down else ""


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
