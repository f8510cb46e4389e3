"""Kinds of operations that override a safety check: the text that both people see, and the operation itself.

Invariants: the table has one line per kind. The shown facts come from rows, those of transactions from the brokers, and are the same for both people.
A repeated operation has no further effect. Does not contain: permission to approve (`proposals`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from brokerd.cluster.majority_config import has_majority_acks
from brokerd.cluster.partition_names import split_partition_name
from brokerd.delivery.half_messages import HalfDecision
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.proposal import ProposalKind
from controlplane.models import Broker, Change, Move, ObservedPartition
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState
from controlplane.selectors import partitions
from controlplane.services import half_messages, moves, tails, transactions
from controlplane.services.common import Rejected, record
from controlplane.services.proposal_kinds import ApprovedOperation, ProposalHandler, ProposalText
from weir_common.phrases import Phrase, counted, sentence

STARTS_AFTER_APPROVAL = (
    "The move changes {count} partition. The move starts immediately.",
    "The move changes {count} partitions. The move starts immediately.",
)
CAN_BE_STARTED = (
    "The move changes {count} partition. The move can be started after the approval.",
    "The move changes {count} partitions. The move can be started after the approval.",
)
PART_OF_DIGEST = ("topic_id", "partition", "replicas_from", "replicas_to", "read_generation")


# -- a move that overrides a safety rule: the target is its number; arguments {"start": start immediately} ----------------------


def _show_move(target: str, arguments: Mapping[str, object]) -> ProposalText:
    move = _move(target)
    if not move.overrides:
        raise Rejected(
            sentence(
                "Move {target} overrides no safety check; approve or start it without a second person.", target=target
            ),
            "target",
        )
    if move.state != MoveState.PLANNED:
        raise Rejected(
            sentence(
                "Move {target} is {state}; approval can be requested only for a planned move.",
                target=target,
                state=move.state,
            ),
            "target",
        )
    digest = hashlib.sha256()
    for row in move.parts.order_by("id").values_list(*PART_OF_DIGEST):
        digest.update(json.dumps([str(row[0]), *row[1:]]).encode())
    count = move.parts.count()
    return ProposalText(
        sentence("Move {move}, overriding a safety check", move=target),
        (*move.overrides, counted(count, *(STARTS_AFTER_APPROVAL if arguments.get("start") else CAN_BE_STARTED))),
        {"move": move.pk, "plan": digest.hexdigest(), "throttle_bytes_per_s": move.throttle_bytes_per_s},
    )


def _approve_move(act: ApprovedOperation) -> tuple[Outcome, str]:
    move = _move(act.target)
    if move.state == MoveState.PLANNED:
        move = moves.approve_move(move.pk, actor=act.actor, comment=act.comment, second=True)
    elif move.state != MoveState.APPROVED:
        return Outcome.UNCHANGED, sentence(
            "Move {move} is {state} already.", move=move.pk, state=Phrase(move.state.replace("_", " "))
        )
    if act.arguments.get("start"):
        moves.start_move(move.pk, actor=act.actor, comment=act.comment)
        return Outcome.CONFIRMED, sentence("Move {move} is approved and has started.", move=move.pk)
    return Outcome.CONFIRMED, sentence("Move {move} is approved.", move=move.pk)


def _move(target: str) -> Move:
    move = Move.objects.filter(pk=int(target)).first() if target.isdigit() else None
    if move is None:
        raise Rejected(sentence("Move {target} does not exist.", target=repr(target)), "target")
    return move


# -- deletion of records before retention deletes them: the target is the move; arguments {"confirm": the typed name} ---------------


def _show_cut(target: str, arguments: Mapping[str, object]) -> ProposalText:
    move = _move(target)
    preview = tails.deletion_preview(move.pk)
    if preview.problem is not None:
        raise Rejected(preview.problem, "target")
    if str(arguments.get("confirm", "")).strip() != preview.confirm:
        raise Rejected(sentence("Type {confirm} to confirm what is deleted.", confirm=repr(preview.confirm)), "confirm")
    groups = sorted({g.group_id for g in preview.groups})
    below = {f"{p.topic}-{p.partition}": p.end for p in preview.parts}
    lines = [
        sentence(
            "{partition}: every record below offset {offset} is deleted for all consumers, as by DeleteRecords.",
            partition=name,
            offset=end,
        )
        for name, end in below.items()
    ]
    lines += [sentence("Group {group} has not read all of these records.", group=g) for g in groups]
    return ProposalText(
        sentence("Delete old records of move {move}", move=move.pk),
        (
            *_first_lines(lines, MORE_LINES),
            sentence(
                "Consumers without committed offsets, for example Spark, are unknown. The deletion cannot be undone."
            ),
        ),
        {"move": move.pk, "deleted_below": below, "groups_behind": groups},
        tuple(_first_lines(preview.sentences(), MORE_VALUES)),
    )


def _delete_records(act: ApprovedOperation) -> tuple[Outcome, str]:
    move = _move(act.target)
    if (
        Change.objects.filter(verb=AuditOperation.MOVE_DELETE_RECORDS, object_id=f"move-{move.pk}", comment=act.comment)
        .exclude(outcome=Outcome.REJECTED)
        .exists()
    ):
        return Outcome.UNCHANGED, sentence(
            "The old records of move {move} were already deleted by this approval request.", move=move.pk
        )
    below = _deleted_below(act.facts)
    cut = tails.delete_old_records(move.pk, below=below, actor=act.actor, comment=act.comment)
    return Outcome.CONFIRMED, counted(
        len(below),
        "The old records of {cut} of {count} partition are being deleted; the move continues automatically.",
        "The old records of {cut} of {count} partitions are being deleted; the move continues automatically.",
        cut=f"{cut:,}",
    )


def _deleted_below(facts: Mapping[str, object]) -> dict[str, int]:
    """{partition: offset} of the facts that both people have seen. Raises Rejected."""
    below = facts.get("deleted_below")
    if not isinstance(below, dict) or not all(isinstance(offset, int) for offset in below.values()):
        raise Rejected(
            sentence("The approval request does not say which records are deleted; request the deletion again.")
        )
    return below


LINES_MAX = 200
"""Maximum number of partitions and groups listed by name in the shown lines. The facts contain all of them."""


MORE_LINES, MORE_VALUES = "And {count} lines more.", "And {count} current values more."


def _first_lines(lines: Sequence[str], text: str) -> list[str]:
    more = len(lines) - LINES_MAX
    return [*lines[:LINES_MAX], *([sentence(text, count=more)] if more > 0 else [])]


def texts() -> Iterator[tuple[str, str]]:
    """(text, its plural or "") of what both people see, for the catalogues."""
    yield from (STARTS_AFTER_APPROVAL, CAN_BE_STARTED)
    yield from ((text, "") for text in (MORE_LINES, MORE_VALUES))


# -- an unclean leader election: the target is topic-partition -----------------------------------------------------------------


def _offline(target: str) -> tuple[ObservedPartition, list[int]]:
    """The partition, which has no leader, and its replicas on live brokers."""
    row = None
    if (name := split_partition_name(target)) is not None:
        rows = ObservedPartition.objects.filter(topic__name=name[0], index=name[1]).select_related("topic")
        row = rows.prefetch_related("replica_rows").first()
    if row is None:
        raise Rejected(sentence("Partition {target} does not exist.", target=repr(target)), "target")
    if row.leader is not None:
        raise Rejected(
            sentence("{target} has leader {leader}; no election is needed.", target=target, leader=row.leader), "target"
        )
    alive = set(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))
    living = [b for b in row.replicas if b in alive]
    if not living:
        raise Rejected(
            sentence(
                "None of {target}'s replicas {replicas} is alive; start one of their brokers first.",
                target=target,
                replicas=row.replicas,
            )
        )
    return row, living


def _ids_text(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers))


def _show_election(target: str, arguments: Mapping[str, object]) -> ProposalText:
    row, living = _offline(target)
    ends = {r.broker_id: r.end_offset for r in row.replica_rows.all()}
    proven = partitions.proven_replicas(row)
    if has_majority_acks(row.topic.configs):
        cause = sentence(
            "A leader needs the logs of a majority of replicas {replicas}; only brokers {brokers} are alive.",
            replicas=_ids_text(row.replicas),
            brokers=_ids_text(living),
        )
    elif proven:
        cause = sentence("No broker of the last in-sync replicas {brokers} is alive.", brokers=_ids_text(proven))
    else:
        cause = sentence("No replica is known to have all records.")
    lines = [
        cause,
        sentence(
            "One of brokers {brokers} becomes the leader, and every other replica is truncated to its log end offset.",
            brokers=_ids_text(living),
        ),
    ]
    for broker_id in living:
        known, end = ends.get(broker_id), row.end_offset
        if known is None or end is None:
            lines.append(
                sentence(
                    "Broker {broker}: its log end offset is unknown; the records that it lacks are permanently lost.",
                    broker=broker_id,
                )
            )
        else:
            lines.append(
                sentence(
                    "Broker {broker} was last seen at offset {offset}: {lost} of {end} known records would be lost.",
                    broker=broker_id,
                    offset=known,
                    lost=max(0, end - known),
                    end=end,
                )
            )
    silent = [b for b in row.replicas if b not in living]
    responses = dict(Broker.objects.filter(broker_id__in=silent).values_list("broker_id", "sampled_at"))
    if times := [at for at in responses.values() if at is not None]:
        lines.append(
            sentence(
                "Records that brokers {brokers} received after their last response to the console, {time} UTC, are not counted here. They would be lost.",
                brokers=silent,
                time=f"{max(times):%Y-%m-%d %H:%M:%S}",
            )
        )
    facts = {
        "replicas": row.replicas,
        "isr": row.isr,
        "elr": row.elr,
        "last_isr": row.last_isr,
        "alive": living,
        "partition_epoch": row.partition_epoch,
    }
    return ProposalText(sentence("Unclean leader election of {partition}", partition=target), tuple(lines), facts)


def _elect(act: ApprovedOperation) -> tuple[Outcome, str]:
    from controlplane.clients import kafka
    from controlplane.clients.connection import Declined, NoResponse

    target = act.target
    name = split_partition_name(target)
    assert name is not None, "the request was stored with the name of a partition"
    topic, index = name
    try:
        needed = kafka.elect_uncleanly(topic, index)
        outcome, detail = (
            (Outcome.CONFIRMED, sentence("{partition} has a leader again; see the partition page.", partition=target))
            if needed
            else (Outcome.UNCHANGED, sentence("{partition} already had a leader.", partition=target))
        )
    except NoResponse as e:
        outcome, detail = (
            Outcome.UNKNOWN,
            sentence("No response: {error} Check the partition before you request the election again.", error=e),
        )
    except Declined as e:
        outcome, detail = Outcome.REJECTED, sentence("The controller rejected the election: {error}", error=e)
    after = {"partition": index}
    record(
        act.actor,
        AuditOperation.TOPIC_ELECT,
        "topic",
        topic,
        comment=act.comment,
        after=after,
        outcome=outcome,
        detail=detail,
    )
    return outcome, detail


KINDS: dict[str, ProposalHandler] = {
    ProposalKind.MOVE_APPROVE: ProposalHandler("A move that overrides a safety check", _show_move, _approve_move),
    ProposalKind.MOVE_DELETE_RECORDS: ProposalHandler(
        "A deletion of old records before retention", _show_cut, _delete_records
    ),
    ProposalKind.UNCLEAN_ELECTION: ProposalHandler("An unclean leader election", _show_election, _elect),
    ProposalKind.TRANSACTION_ABORT: ProposalHandler(
        "An abort of a hanging transaction", transactions.show_abort, transactions.abort
    ),
    ProposalKind.TRANSACTION_FENCE: ProposalHandler(
        "A fencing of an open transaction", transactions.show_fence, transactions.fence
    ),
    ProposalKind.HALF_COMMIT: half_messages.handler(HalfDecision.COMMIT),
    ProposalKind.HALF_ROLLBACK: half_messages.handler(HalfDecision.ROLLBACK),
}
