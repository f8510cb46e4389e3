"""Values of messages from the rows of the monitor."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.domain.message_metrics import MessageMetrics
from controlplane.models import TopicMessages
from controlplane.selectors.message_metrics import metrics_of

pytestmark = pytest.mark.django_db


def test_a_row_becomes_metrics_and_no_row_is_unknown() -> None:
    now = timezone.now()
    TopicMessages.objects.create(topic="orders", dead_letters=4, sampled_at=now)
    assert metrics_of("orders") == MessageMetrics(dead_letters=4, sampled_at=now)
    assert metrics_of("other") == MessageMetrics()
