"""The operations of the audit log and their labels."""

from __future__ import annotations

import pytest

from controlplane.domain.access import AccessRecordKind
from controlplane.domain.audit_operation import LABELS, AuditOperation, operation_label
from controlplane.domain.move_states import MoveState
from controlplane.domain.restart import RestartState
from controlplane.models.change import Change


def test_each_operation_has_a_label_and_fits_the_column() -> None:
    assert set(LABELS) == set(AuditOperation)
    assert max(map(len, AuditOperation)) <= (Change._meta.get_field("verb").max_length or 0)


@pytest.mark.parametrize("code", [f"move.{s}" for s in MoveState] + [f"restart.{s}" for s in RestartState])
def test_each_state_that_the_worker_records_is_an_operation(code: str) -> None:
    assert operation_label(code) == LABELS[AuditOperation(code)]


@pytest.mark.parametrize("kind", AccessRecordKind)
def test_a_client_that_sets_an_access_record_has_an_operation(kind: AccessRecordKind) -> None:
    assert AuditOperation(f"{kind}.set") in LABELS


def test_the_code_of_another_version_is_shown_with_spaces() -> None:
    assert operation_label("topic.future_operation") == "topic future operation"
