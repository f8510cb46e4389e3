"""Transactions that an operator ends: abort of one that hangs in a partition, and fencing of the producer of an open one.

Invariants: both need a second person (`overrides`). Both people see the state that the brokers report, and only that transaction is ended: the start
offset identifies it in a partition, the producer epoch at its coordinator. The outcome is read back.
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.clients import transactions as client
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.text import duration
from controlplane.domain.transactions import CoordinatorState, TransactionVerdict, parse_target
from controlplane.models.change import Outcome
from controlplane.selectors import hanging_transactions
from controlplane.selectors import transactions as selectors
from controlplane.services.common import Rejected, record
from controlplane.services.proposal_kinds import ApprovedOperation, ProposalText
from weir_common.phrases import sentence

TARGET_CHARS_MAX = 300
"""Maximum number of characters of a proposal's target."""

VERDICT_TEXTS = {
    TransactionVerdict.UNKNOWN_PRODUCER: "No transaction coordinator has a transactional id with this producer id.",
    TransactionVerdict.NOT_IN_TRANSACTION: "The transaction of its transactional id does not contain this partition.",
    TransactionVerdict.TOO_OLD: "It is open for longer than transaction.max.timeout.ms.",
}


def _target(target: str) -> tuple[str, int, int]:
    found = parse_target(target)
    if found is None:
        raise Rejected(
            sentence("{target} is not topic-partition@start offset, for example orders-3@1234.", target=repr(target)),
            "target",
        )
    return found


def _find_hanging(target: str) -> hanging_transactions.HangingRow:
    """The hanging transaction of this target. Raises Rejected."""
    topic, index, offset = _target(target)
    scan = hanging_transactions.search(topic, index, offset)
    if not scan.rows:
        if scan.partitions == 0:
            raise Rejected(sentence("Partition {topic}-{index} does not exist.", topic=topic, index=index), "target")
        if scan.partitions_described == 0:
            raise Rejected(
                sentence(
                    "The leader of {topic}-{index} does not respond, so its open transactions are unknown. Try again when it responds.",
                    topic=topic,
                    index=index,
                )
            )
        raise Rejected(
            sentence(
                "No open transaction of {topic}-{index} begins at offset {offset}; it has ended.",
                topic=topic,
                index=index,
                offset=offset,
            )
        )
    row = scan.rows[0]
    if row.is_undetermined:
        silent = ", ".join(str(s.broker_id) for s in scan.brokers_silent) or "none"
        raise Rejected(
            sentence(
                "It is unknown whether the transaction hangs: not every transaction coordinator answered (silent brokers: {silent}; partitions of __transaction_state without a leader: {offline_partitions}).",
                silent=silent,
                offline_partitions=scan.offline_partitions,
            )
        )
    if row.verdict == TransactionVerdict.ACTIVE:
        raise Rejected(
            sentence(
                "The transaction does not hang: its coordinator ends it at its time-out. To end it now, fence {transactional_id}.",
                transactional_id=repr(row.transactional_id),
            )
        )
    return row


def show_abort(target: str, arguments: Mapping[str, object]) -> ProposalText:
    row = _find_hanging(target)
    name = f"{row.topic}-{row.index}"
    verdict = TransactionVerdict(row.verdict)
    lines = (
        sentence(
            "Producer {producer} (epoch {epoch}): its transaction from offset {offset} of {partition} gets an abort marker.",
            producer=row.producer_id,
            epoch=row.producer_epoch,
            offset=row.start_offset,
            partition=name,
        ),
        sentence(VERDICT_TEXTS[verdict]),
        sentence(
            "read_committed consumers of {partition} continue, and never receive the records of this transaction. This cannot be undone.",
            partition=name,
        ),
    )
    facts = {
        "topic": row.topic,
        "partition": row.index,
        "start_offset": row.start_offset,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "coordinator_epoch": row.coordinator_epoch,
        "transactional_id": row.transactional_id,
        "verdict": verdict.value,
    }
    if row.last_timestamp is None:
        last = sentence("Last record of the producer: unknown.")
    else:
        last = sentence("Last record of the producer: {time} UTC.", time=f"{row.last_timestamp:%Y-%m-%d %H:%M:%S}")
    return ProposalText(sentence("Abort the hanging transaction of {partition}", partition=name), lines, facts, (last,))


def abort(act: ApprovedOperation) -> tuple[Outcome, str]:
    topic, index, offset = _target(act.target)
    outcome, detail = _abort(topic, index, offset, act.facts)
    after = {k: act.facts[k] for k in ("partition", "start_offset", "producer_id", "producer_epoch")}
    record(
        act.actor,
        AuditOperation.TRANSACTION_ABORT,
        "transaction",
        act.target[:255],
        comment=act.comment,
        after=after,
        outcome=outcome,
        detail=detail,
    )
    return outcome, detail


def _abort(topic: str, index: int, offset: int, facts: Mapping[str, object]) -> tuple[Outcome, str]:
    try:
        now = hanging_transactions.open_in_partition(topic, index, offset)
    except LookupError as e:
        return Outcome.REJECTED, sentence("Nothing was written: {error}.", error=e)
    if now is None:
        return Outcome.UNCHANGED, sentence(
            "The transaction of {partition} has already ended.", partition=f"{topic}-{index}"
        )
    if (now.producer_id, now.producer_epoch) != (facts["producer_id"], facts["producer_epoch"]):
        return Outcome.REJECTED, sentence(
            "Producer {producer} (epoch {epoch}) has the transaction now.",
            producer=now.producer_id,
            epoch=now.producer_epoch,
        )
    leader = selectors.address_of_broker(now.leader)
    if leader is None:
        return Outcome.REJECTED, sentence("Nothing was written: broker {broker} is down.", broker=now.leader)
    try:
        client.write_abort_marker(leader.host, leader.port, now)
    except Declined as e:
        return Outcome.REJECTED, sentence(
            "Broker {broker} rejected the abort marker: {error}.", broker=now.leader, error=e
        )
    except NoResponse as e:
        return Outcome.UNKNOWN, sentence(
            "No response: {error} Search for hanging transactions before you request the abort again.", error=e
        )
    try:
        left = hanging_transactions.open_in_partition(topic, index, offset)
    except LookupError as e:
        return Outcome.UNKNOWN, sentence(
            "Broker {broker} has written the abort marker, and could not be read back: {error}.",
            broker=now.leader,
            error=e,
        )
    if left is not None:
        return Outcome.UNKNOWN, sentence(
            "Broker {broker} has confirmed the abort marker and still reports the transaction.", broker=now.leader
        )
    return Outcome.CONFIRMED, sentence(
        "The transaction is aborted; consumers of {partition} continue.", partition=f"{topic}-{index}"
    )


def _open_transaction(transactional_id: str) -> selectors.TransactionDetail:
    """The transactional id, which has an open transaction. Raises Rejected."""
    if not transactional_id or len(transactional_id) > TARGET_CHARS_MAX:
        raise Rejected(sentence("Name a transactional id of at most {max} characters.", max=TARGET_CHARS_MAX), "target")
    found = selectors.transaction(transactional_id)
    if found.row is None:
        if found.brokers_silent or found.offline_partitions:
            raise Rejected("The coordinator of this transactional id does not respond. Try again when it responds.")
        raise Rejected(
            sentence("There is no transactional id {transactional_id}.", transactional_id=repr(transactional_id)),
            "target",
        )
    if found.row.state != CoordinatorState.ONGOING:
        raise Rejected(
            sentence(
                "{transactional_id} is in state {state}; only an ongoing transaction is fenced.",
                transactional_id=repr(transactional_id),
                state=found.row.state,
            )
        )
    return found


def show_fence(target: str, arguments: Mapping[str, object]) -> ProposalText:
    found = _open_transaction(target)
    row = found.row
    assert row is not None
    lines = (
        sentence(
            "The open transaction of {target} is aborted in all its partitions. read_committed consumers never receive its records.",
            target=repr(target),
        ),
        sentence(
            "Its producer {producer} (epoch {epoch}) is fenced: its further requests fail, and its application must be restarted.",
            producer=row.producer_id,
            epoch=row.producer_epoch,
        ),
        sentence(
            "This cannot be undone. A producer that is started again with this transactional id continues normally."
        ),
    )
    facts = {
        "transactional_id": target,
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "started_at": None if found.started_at is None else found.started_at.isoformat(),
    }
    current_values = [sentence("Partitions in the transaction: {count}.", count=found.partition_count)]
    if row.open_s is not None:
        current_values.append(sentence("Open for {time}.", time=duration(row.open_s)))
    return ProposalText(sentence("Fence the producer of {target}", target=target), lines, facts, tuple(current_values))


def fence(act: ApprovedOperation) -> tuple[Outcome, str]:
    outcome, detail = _fence(act.target, act.facts)
    after = {"producer_id": act.facts["producer_id"], "producer_epoch": act.facts["producer_epoch"]}
    record(
        act.actor,
        AuditOperation.TRANSACTION_FENCE,
        "transaction",
        act.target[:255],
        comment=act.comment,
        after=after,
        outcome=outcome,
        detail=detail,
    )
    return outcome, detail


def _fence(transactional_id: str, facts: Mapping[str, object]) -> tuple[Outcome, str]:
    row = selectors.transaction(transactional_id).row
    if row is None:
        return Outcome.REJECTED, sentence(
            "Nothing was changed: the coordinator of this transactional id does not respond."
        )
    if (row.producer_id, row.producer_epoch) != (facts["producer_id"], facts["producer_epoch"]):
        return Outcome.UNCHANGED, sentence(
            "Another producer (epoch {epoch}) uses this transactional id already.", epoch=row.producer_epoch
        )
    if row.state != CoordinatorState.ONGOING:
        return Outcome.UNCHANGED, sentence("The transaction has already ended: {state}.", state=row.state)
    coordinator = selectors.address_of_broker(row.coordinator)
    if coordinator is None:
        return Outcome.REJECTED, sentence("Nothing was changed: broker {broker} is down.", broker=row.coordinator)
    try:
        _, epoch = client.fence_producer(coordinator.host, coordinator.port, transactional_id, row.timeout_ms or 1)
    except Declined as e:
        return Outcome.REJECTED, sentence(
            "Broker {broker} rejected the fencing of the producer: {error}.", broker=row.coordinator, error=e
        )
    except NoResponse as e:
        return Outcome.UNKNOWN, sentence(
            "No response: {error} Read the transactional id before you request the fencing again.", error=e
        )
    return Outcome.CONFIRMED, sentence(
        "The transaction is aborted, and the producer is fenced by epoch {epoch}.", epoch=epoch
    )
