"""Elections of preferred leaders that an operator requests: of one partition, a topic, or the cluster.

Invariants: only partitions that the preview calls electable are requested. A confirmed election was read back from a broker. One change row per
election names the partitions with their leaders before and after. Does not contain: unclean leader elections (`overrides`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from brokerd.wire.errors import ErrorCode
from controlplane.clients import leader_elections as client
from controlplane.clients.all_brokers import BrokerAddress
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.leader_election import ElectionVerdict
from controlplane.models.change import Outcome
from controlplane.selectors.leader_elections import ElectionPreview, ElectionRow, election_preview, live_brokers
from controlplane.services.common import Arguments, Rejected, audited, record
from weir_common.phrases import counted, joined, sentence

RECORDED_MAX = 200
"""Maximum number of partitions that a change row lists; it counts the others."""

ALL_TOPICS = "all topics"


@dataclass(frozen=True, slots=True)
class ElectedPartition:
    """`outcome`: confirmed, unchanged, refused or unknown. `leader`: as read back; null = no leader, or not read. `reason`: of an outcome other than
    confirmed."""

    topic: str
    index: int
    leader_before: int | None
    leader: int | None
    preferred: int
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """`outcome`: of all partitions: unknown if one is unknown, else confirmed if one is confirmed, else refused if one is refused, else unchanged.
    `change_id`: its row in the audit log. `partitions_more`: partitions above the limit of one election."""

    topic: str
    partition: int | None
    rows: list[ElectedPartition]
    confirmed: int
    unchanged: int
    refused: int
    unknown: int
    outcome: str
    partitions_more: int
    change_id: int


def preview_election(topic: str = "", partition: int | None = None) -> ElectionPreview:
    """The changes that the election would make. Raises Rejected."""
    if partition is not None and not topic:
        raise Rejected("Name the topic of the partition.", "topic")
    found = election_preview(topic, partition)
    if found is None:
        what = f"Topic {topic!r}" if partition is None else f"Partition {topic}-{partition}"
        raise Rejected(sentence("{what} does not exist.", what=what), "topic" if partition is None else "partition")
    return found


def _object_name(arguments: Arguments) -> str:
    return str(arguments["topic"] or ALL_TOPICS)


@audited(AuditOperation.TOPIC_ELECT_PREFERRED, _object_name, after=lambda given: {"partition": given["partition"]})
def elect_preferred_leaders(
    topic: str = "", partition: int | None = None, *, actor: str, comment: str = ""
) -> PreferredElection:
    """Elect the preferred leader of each electable partition. Raises Rejected if every partition of the election is blocked."""
    preview = preview_election(topic, partition)
    electable = [r for r in preview.rows if r.verdict == ElectionVerdict.ELECTABLE]
    if not electable and preview.blocked:
        first = next(r for r in preview.rows if r.verdict != ElectionVerdict.PREFERRED_LEADS)
        more = preview.blocked_total - 1
        where = {"partition": f"{first.topic}-{first.index}", "reason": first.reason}
        text = sentence("No preferred leader can be elected. {partition}: {reason}", **where)
        others = [counted(more, "{count} more partition.", "{count} more partitions.")] if more else []
        raise Rejected(joined([text, *others]))
    brokers = live_brokers()
    results = [
        r
        for at in range(0, len(electable), client.PARTITIONS_PER_REQUEST)
        for r in _elect(brokers, electable[at : at + client.PARTITIONS_PER_REQUEST])
    ]
    results += [
        _row(r, _blocked_outcome(r), r.leader, r.reason) for r in preview.rows if r.verdict != ElectionVerdict.ELECTABLE
    ]
    counts = Counter(r.outcome for r in results)
    outcome = next(
        (o for o in (Outcome.UNKNOWN, Outcome.CONFIRMED, Outcome.REJECTED) if counts[o.value]), Outcome.UNCHANGED
    )
    changed = [r for r in results if r.outcome in (Outcome.CONFIRMED, Outcome.UNKNOWN)][:RECORDED_MAX]
    change = record(
        actor,
        AuditOperation.TOPIC_ELECT_PREFERRED,
        "topic",
        topic or ALL_TOPICS,
        comment=comment,
        before={f"{r.topic}-{r.index}": r.leader_before for r in changed} or None,
        after={f"{r.topic}-{r.index}": r.leader for r in changed} or None,
        outcome=outcome,
        detail=_detail(results, counts, preview.partitions_more),
    )
    return PreferredElection(
        topic=topic,
        partition=partition,
        rows=results,
        confirmed=counts[Outcome.CONFIRMED.value],
        unchanged=counts[Outcome.UNCHANGED.value],
        refused=counts[Outcome.REJECTED.value],
        unknown=counts[Outcome.UNKNOWN.value],
        outcome=outcome.value,
        partitions_more=preview.partitions_more,
        change_id=change.pk,
    )


def _elect(brokers: Sequence[BrokerAddress], rows: Sequence[ElectionRow]) -> list[ElectedPartition]:
    """The results of one request, in the order of `rows`."""
    spots = {(r.topic, r.index): r for r in rows}
    try:
        codes = client.elect_preferred(brokers, list(spots))
    except Declined as e:
        return [
            _row(r, Outcome.REJECTED, r.leader, sentence("The controller rejected the election: {reason}", reason=e))
            for r in rows
        ]
    except NoResponse as e:
        return [_row(r, Outcome.UNKNOWN, None, sentence("No response: {reason}", reason=e)) for r in rows]
    results = {spot: _election_result(row, codes.get(spot)) for spot, row in spots.items()}
    expected = {s: spots[s].preferred for s, r in results.items() if r.outcome == Outcome.CONFIRMED}
    if not expected:
        return list(results.values())
    try:
        leaders = client.read_back(brokers, expected)
    except NoResponse as e:
        text = sentence(
            "The controller confirmed the election, and the leader could not be read back: {reason}", reason=e
        )
        unread = {s: replace(results[s], outcome=Outcome.UNKNOWN.value, leader=None, reason=text) for s in expected}
        return list({**results, **unread}.values())
    for spot, preferred in expected.items():
        if leaders[spot] != preferred:
            text = (
                sentence("The controller confirmed the election, and no broker was read back as the leader.")
                if leaders[spot] is None
                else sentence(
                    "The controller confirmed the election, and broker {broker_id} was read back as the leader.",
                    broker_id=leaders[spot],
                )
            )
            results[spot] = replace(results[spot], outcome=Outcome.UNKNOWN.value, leader=leaders[spot], reason=text)
    return list(results.values())


def _election_result(row: ElectionRow, code: ErrorCode | None) -> ElectedPartition:
    """The result by the code of the controller; a confirmed one is read back later."""
    match code:
        case None:
            return _row(row, Outcome.UNKNOWN, None, "The response has no result for this partition.")
        case ErrorCode.NONE:
            return _row(row, Outcome.CONFIRMED, row.preferred)
        case ErrorCode.ELECTION_NOT_NEEDED:
            return _row(
                row,
                Outcome.UNCHANGED,
                row.preferred,
                sentence("Broker {broker_id} is the leader already.", broker_id=row.preferred),
            )
        case ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
            text = sentence(
                "The replica on broker {broker_id} is not alive and in sync any more.", broker_id=row.preferred
            )
            return _row(row, Outcome.REJECTED, row.leader, text)
        case ErrorCode.REQUEST_TIMED_OUT:
            return _row(row, Outcome.UNKNOWN, None, "The controller did not respond in time.")
        case _:
            return _row(
                row,
                Outcome.REJECTED,
                row.leader,
                sentence("The controller rejected the election: {reason}", reason=code.text),
            )


def _blocked_outcome(row: ElectionRow) -> Outcome:
    return Outcome.UNCHANGED if row.verdict == ElectionVerdict.PREFERRED_LEADS else Outcome.REJECTED


def _row(row: ElectionRow, outcome: Outcome, leader: int | None, reason: str = "") -> ElectedPartition:
    return ElectedPartition(row.topic, row.index, row.leader, leader, row.preferred, outcome.value, reason)


def _number(outcome: Outcome, count: int) -> str:
    match outcome:
        case Outcome.CONFIRMED:
            return sentence("{count} confirmed", count=count)
        case Outcome.UNCHANGED:
            return sentence("{count} unchanged", count=count)
        case Outcome.REJECTED:
            return sentence("{count} rejected", count=count)
        case Outcome.PENDING | Outcome.UNKNOWN:
            return sentence("{count} unknown", count=count)


def _detail(results: Sequence[ElectedPartition], counts: Counter[str], more: int) -> str:
    numbers = [_number(o, counts[o.value]) for o in Outcome if counts[o.value]]
    texts = [sentence("{numbers}.", numbers=numbers) if numbers else sentence("no partition needs an election.")]
    reasons = dict.fromkeys(
        sentence("{topic}-{index}: {reason}", topic=r.topic, index=r.index, reason=r.reason)
        for r in results
        if r.reason
    )
    texts += list(reasons)[:10]
    if (rest := len(reasons) - 10) > 0:
        texts.append(
            counted(rest, "And {count} more partition with a reason.", "And {count} more partitions with a reason.")
        )
    if more:
        texts.append(
            counted(
                more,
                "{count} partition above the limit of one election.",
                "{count} partitions above the limit of one election.",
            )
        )
    return joined(texts)
