"""Moves of replicas between the log directories of one broker, and their end before completion.

Invariant: the broker itself copies, replaces and deletes; a move changes no placement, so no other broker takes part. A rejection names its cause.
Does not contain: moves between brokers (`moves`).
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.clients.log_dirs import alter_replica_log_dir
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.log_dirs import MoveProblem, ReportedLogDir, directory_moves, location, move_problem
from controlplane.domain.text import size_text
from controlplane.models import Broker
from controlplane.models.change import Outcome
from controlplane.selectors.log_dirs import reported_log_dirs
from controlplane.services.common import Rejected, audited, needs_reason, record
from weir_common.phrases import sentence

PROBLEM_TEXTS = {
    MoveProblem.UNKNOWN_DIRECTORY: "The broker has no log directory {target}.",
    MoveProblem.FAILED_DIRECTORY: "{target} is offline. Fix the disk and restart the broker first.",
    MoveProblem.NO_REPLICA: "The broker has no replica of {name} in a healthy directory.",
    MoveProblem.SAME_DIRECTORY: "{name} is in {target} already.",
    MoveProblem.ALREADY_MOVING: "{name} is being moved already. Cancel that move first.",
    MoveProblem.NO_SPACE: "{target} does not have enough free space for {name} and the moves that run.",
}


@dataclass(frozen=True, slots=True)
class LogDirMovePreview:
    """`free_bytes`, `total_bytes`: of the target, null = unknown."""

    broker_id: int
    topic: str
    index: int
    source: str
    target: str
    size_bytes: int
    free_bytes: int | None
    total_bytes: int | None


def preview_log_dir_move(broker_id: int, topic: str, index: int, directory: str) -> LogDirMovePreview:
    """The effect of the move. Raises Rejected."""
    dirs = _directories(broker_id)
    problem = move_problem(dirs, topic, index, directory)
    if problem is not None:
        text = PROBLEM_TEXTS[problem].format(target=directory or "''", name=f"{topic}-{index}")
        raise Rejected(text, "directory" if problem is MoveProblem.UNKNOWN_DIRECTORY else "")
    found = location(dirs, topic, index)
    assert found is not None, "move_problem has checked it"
    source, replica = found
    target = next(d for d in dirs if d.path == directory)
    return LogDirMovePreview(
        broker_id=broker_id,
        topic=topic,
        index=index,
        source=source.path,
        target=target.path,
        size_bytes=replica.size_bytes,
        free_bytes=target.free_bytes,
        total_bytes=target.total_bytes,
    )


def other_directories(broker_id: int, topic: str, index: int) -> tuple[str, list[tuple[str, int | None]]]:
    """(current directory, (path, free bytes) of the directories to which the replica can move). Raises Rejected."""
    dirs = _directories(broker_id)
    found = location(dirs, topic, index)
    if found is None:
        raise Rejected(PROBLEM_TEXTS[MoveProblem.NO_REPLICA].format(name=f"{topic}-{index}"))
    return found[0].path, [(d.path, d.free_bytes) for d in dirs if move_problem(dirs, topic, index, d.path) is None]


@audited(
    AuditOperation.REPLICA_LOG_DIR,
    "{topic}-{index} on broker {broker_id}",
    after=lambda given: {"target": given["directory"]},
)
def move_to_log_dir(
    broker_id: int, topic: str, index: int, directory: str, *, actor: str, comment: str
) -> tuple[LogDirMovePreview, Outcome]:
    """Start the move. UNKNOWN: the broker did not respond. Raises Rejected."""
    needs_reason(comment)
    preview = preview_log_dir_move(broker_id, topic, index, directory)
    outcome, detail = _alter(broker_id, topic, index, directory)
    record(
        actor,
        AuditOperation.REPLICA_LOG_DIR,
        "replica",
        f"{topic}-{index} on broker {broker_id}"[:255],
        comment=comment,
        before={"directory": preview.source},
        after={"directory": directory},
        outcome=outcome,
        detail=detail
        or sentence("Broker {broker_id} copies {size}.", broker_id=broker_id, size=size_text(preview.size_bytes)),
    )
    return preview, outcome


@audited(AuditOperation.REPLICA_LOG_DIR_CANCEL, "{topic}-{index} on broker {broker_id}")
def cancel_log_dir_move(broker_id: int, topic: str, index: int, *, actor: str, comment: str = "") -> Outcome:
    """End a move before its completion: the replica stays in its directory, and the broker deletes the copy. Raises Rejected."""
    move = next((m for m in directory_moves(_directories(broker_id)) if (m.topic, m.index) == (topic, index)), None)
    if move is None or not move.source:
        raise Rejected(
            sentence(
                "{topic}-{index} is not being moved between directories of broker {broker_id}.",
                topic=topic,
                index=index,
                broker_id=broker_id,
            )
        )
    outcome, detail = _alter(broker_id, topic, index, move.source)
    record(
        actor,
        AuditOperation.REPLICA_LOG_DIR_CANCEL,
        "replica",
        f"{topic}-{index} on broker {broker_id}"[:255],
        comment=comment,
        before={"directory": move.source, "target": move.target},
        after={"directory": move.source},
        outcome=outcome,
        detail=detail,
    )
    return outcome


def _directories(broker_id: int) -> list[ReportedLogDir]:
    reported = reported_log_dirs(broker_id)
    if reported is None:
        raise Rejected(sentence("Broker {broker_id} does not exist.", broker_id=broker_id), "broker_id")
    dirs, problem = reported
    if problem:
        raise Rejected(
            sentence(
                "The log directories of broker {broker_id} are unknown: {problem}", broker_id=broker_id, problem=problem
            )
        )
    return dirs


def _alter(broker_id: int, topic: str, index: int, directory: str) -> tuple[Outcome, str]:
    """(outcome, detail). Raises Rejected with the broker's error."""
    broker = Broker.objects.get(pk=broker_id)
    connection = KafkaConnection(broker.host, broker.port)
    try:
        alter_replica_log_dir(connection, topic, index, directory)
    except Declined as e:
        raise Rejected(
            sentence("Broker {broker_id} rejected the request: {detail}.", broker_id=broker_id, detail=e)
        ) from None
    except NoResponse as e:
        return Outcome.UNKNOWN, f"No response: {e}"
    finally:
        connection.close()
    return Outcome.CONFIRMED, ""
