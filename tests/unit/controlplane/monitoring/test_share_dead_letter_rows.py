"""Numbers of dead letters of share groups as rows: growth, restarts of brokers, and how long a row is kept."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.clients.broker_samples import BrokerSample, ShareLetters
from controlplane.models import ShareGroupLetters
from controlplane.monitoring import share_dead_letter_rows
from controlplane.monitoring.share_dead_letter_rows import KEPT

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def take(*letters: ShareLetters, after: timedelta = timedelta(), asked: bool = True) -> None:
    share_dead_letter_rows.write([BrokerSample(1, 0, share_letters=letters if asked else None)], NOW + after)


def share_letters(written: int, unwritten: int, group: str = "workers") -> ShareLetters:
    return ShareLetters(group, "tasks", written, unwritten, "topic-missing" if unwritten else "")


def test_only_growth_is_a_new_loss() -> None:
    take(share_letters(3, 0))
    assert ShareGroupLetters.objects.get().unwritten_at is None
    take(share_letters(3, 2), after=timedelta(minutes=1))
    take(share_letters(5, 2), after=timedelta(minutes=9))
    row = ShareGroupLetters.objects.get()
    assert (row.written, row.unwritten, row.reason) == (5, 2, "topic-missing")
    assert row.unwritten_at == NOW + timedelta(minutes=1)
    take(share_letters(0, 1), after=timedelta(minutes=20))
    assert ShareGroupLetters.objects.get().unwritten_at == NOW + timedelta(minutes=20), "the broker has started again"


def test_rows_of_a_restarted_broker_are_kept_while_they_tell_of_a_loss() -> None:
    take(share_letters(3, 0), share_letters(1, 1, "lossy"))
    take(asked=False)
    assert ShareGroupLetters.objects.count() == 2, "nothing was asked"
    take()
    row = ShareGroupLetters.objects.get()
    assert (row.group_id, row.written, row.unwritten, row.unwritten_at) == ("lossy", 0, 0, NOW)
    take(after=KEPT + timedelta(seconds=1))
    assert not ShareGroupLetters.objects.exists()
