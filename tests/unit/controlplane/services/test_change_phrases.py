"""Details of the audit log keep their phrases beside the sealed row, so that a page shows them in its language."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import Change, ChangePhrase
from controlplane.models.change import Outcome
from controlplane.monitoring.change_marks import change_row
from controlplane.services import changes, common
from controlplane.services.audit import seal, verify_chain
from weir_common.phrases import TranslatableText, sentence

pytestmark = pytest.mark.django_db
DETAIL = sentence("Broker {broker_id} copies {size}.", broker_id=3, size="2.0 GB")


def record_change(detail: str, outcome: Outcome = Outcome.CONFIRMED) -> Change:
    return common.record(
        "ada", AuditOperation.REPLICA_LOG_DIR, "replica", "orders-1", object_id="o", outcome=outcome, detail=detail
    )


def test_the_row_stays_english_and_a_reason_from_elsewhere_has_no_phrase() -> None:
    change = record_change(DETAIL)
    assert Change.objects.get(pk=change.pk).detail == "Broker 3 copies 2.0 GB."
    other = record_change("NOT_CONTROLLER")
    assert [p.change_id for p in ChangePhrase.objects.all()] == [change.pk]
    row = change_row(other.pk)
    assert row is not None and row.detail == "NOT_CONTROLLER" and not isinstance(row.detail, TranslatableText)


def test_a_later_outcome_replaces_the_phrase() -> None:
    change = record_change(DETAIL, Outcome.PENDING)
    assert common.finish_changes("o", None, Outcome.UNCHANGED, sentence("No records.")) == 1
    row = change_row(change.pk)
    assert row is not None and row.detail == "No records."
    assert isinstance(row.detail, TranslatableText) and row.detail.phrase.text == "No records."


def test_an_overdue_change_has_a_phrase(monkeypatch: pytest.MonkeyPatch) -> None:
    change = record_change("", Outcome.PENDING)
    later = timezone.now() + timedelta(seconds=changes.PENDING_SECONDS_MAX + 1)
    monkeypatch.setattr(changes.timezone, "now", lambda: later)
    assert changes.settle_overdue_changes() == 1
    row = change_row(change.pk)
    assert row is not None and "did not confirm the change within 300 s" in row.detail
    assert isinstance(row.detail, TranslatableText)


def test_a_phrase_that_differs_from_the_sealed_text_is_not_shown() -> None:
    change = record_change(DETAIL)
    seal()
    ChangePhrase.objects.filter(change=change).update(detail={"text": "No records."})
    row = change_row(change.pk)
    assert row is not None and row.detail == "Broker 3 copies 2.0 GB." and not isinstance(row.detail, TranslatableText)
    assert not verify_chain().problems, "the seal covers the row, which is unchanged"
