"""Half messages that an operator decides: a decision record in the front topic, in place of the producer.

Invariants: a decision needs a second person (`overrides`). Both people see the same message, named by its offset. The broker rejects the decision if
the producer has already decided, so a repeated operation has no further effect. Does not contain: undecided messages (`selectors.half_messages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from brokerd.cluster.configs import half_topic_name
from brokerd.delivery.half_messages import HalfDecision
from brokerd.delivery.half_records import DECISION, HALF_ID
from controlplane.clients import producer
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.produce import NewRecord
from controlplane.domain.transactions import parse_target
from controlplane.models.change import Outcome
from controlplane.selectors import half_messages as selectors
from controlplane.services.common import Rejected, record
from controlplane.services.proposal_kinds import ApprovedOperation, ProposalHandler, ProposalText
from weir_common.phrases import sentence

EFFECTS = {
    HalfDecision.COMMIT: "The message is delivered to {topic}, and consumers receive it. This cannot be undone.",
    HalfDecision.ROLLBACK: "The message is never delivered to {topic}, and is deleted. This cannot be undone.",
}
TITLES = {
    HalfDecision.COMMIT: "Commit a half message of {partition}",
    HalfDecision.ROLLBACK: "Rollback a half message of {partition}",
}
VERBS = {HalfDecision.COMMIT: AuditOperation.HALF_COMMIT, HalfDecision.ROLLBACK: AuditOperation.HALF_ROLLBACK}
DONE = {
    HalfDecision.COMMIT: "The message at offset {offset} of {partition} is committed.",
    HalfDecision.ROLLBACK: "The message at offset {offset} of {partition} is rolled back.",
}
GONE = "Nothing was written: the message was decided or has expired."


def _find(target: str) -> tuple[str, int, int, selectors.HalfMessageRow | None]:
    """(topic, partition, offset, undecided message). Raises Rejected if it is unknown whether the message is undecided."""
    parsed = parse_target(target)
    if parsed is None:
        raise Rejected(
            sentence("{target} is not topic-partition@offset, for example orders-3@1234.", target=repr(target)),
            "target",
        )
    topic, index, offset = parsed
    found = selectors.undecided_messages(topic, index, offset)
    if found is None:
        raise Rejected(
            sentence("Topic {topic} has no half messages; set weir.half.enable=true to use them.", topic=repr(topic)),
            "target",
        )
    if found.missing:
        raise Rejected(
            sentence(
                "The half messages of {topic}-{index} are unknown now: {problem}",
                topic=topic,
                index=index,
                problem=found.missing[0].problem,
            )
        )
    return topic, index, offset, next((r for r in found.rows if r.offset == offset), None)


def _show(decision: HalfDecision, target: str, arguments: Mapping[str, object]) -> ProposalText:
    topic, index, offset, row = _find(target)
    if row is None:
        raise Rejected(
            sentence(
                "No undecided half message of {topic}-{index} has offset {offset}: it was decided or has expired.",
                topic=topic,
                index=index,
                offset=offset,
            )
        )
    lines = (
        sentence(
            "Half message {half_id} in partition {partition} of {topic}, offset {offset}.",
            half_id=repr(row.half_id),
            partition=index,
            topic=half_topic_name(topic),
            offset=offset,
        ),
        sentence(EFFECTS[decision], topic=topic),
        sentence("If its producer decides first, that decision counts."),
    )
    facts = {
        "topic": topic,
        "partition": index,
        "offset": offset,
        "half_id_hex": row.half_id_hex,
        "written_at": row.written_at.isoformat(),
    }
    title = sentence(TITLES[decision], partition=f"{topic}-{index}")
    return ProposalText(title, lines, facts, (sentence("Checks sent to its producers: {count}.", count=row.checks),))


def _decide(decision: HalfDecision, act: ApprovedOperation) -> tuple[Outcome, str]:
    outcome, detail = _write(decision, act)
    topic, _, _ = parse_target(act.target) or ("", 0, 0)
    after = {k: act.facts[k] for k in ("partition", "offset", "half_id_hex")}
    record(act.actor, VERBS[decision], "topic", topic, comment=act.comment, after=after, outcome=outcome, detail=detail)
    return outcome, detail


def _write(decision: HalfDecision, act: ApprovedOperation) -> tuple[Outcome, str]:
    topic, index, offset, row = _find(act.target)
    if row is None or row.half_id_hex != act.facts["half_id_hex"]:
        return Outcome.UNCHANGED, sentence(GONE)
    headers = ((HALF_ID, bytes.fromhex(row.half_id_hex)), (DECISION, decision.value.encode()))
    (written,) = producer.produce(half_topic_name(topic), [NewRecord(headers=headers, partition=index)])
    if not written.problem:
        return Outcome.CONFIRMED, sentence(DONE[decision], offset=offset, partition=f"{topic}-{index}")
    if written.unknown:
        return Outcome.UNKNOWN, sentence(
            "{problem} Read the undecided messages before you request the decision again.", problem=written.problem
        )
    if _find(act.target)[3] is None:
        return Outcome.UNCHANGED, sentence(GONE)
    return Outcome.REJECTED, written.problem


def handler(decision: HalfDecision) -> ProposalHandler:
    """The kind of proposal for this decision."""
    label = f"A {decision.value} of a half message"
    return ProposalHandler(label, partial(_show, decision), partial(_decide, decision))
