"""Values of messages from the rows of the monitor."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.domain.message_figures import MessageFigures
from controlplane.models import TopicMessages
from controlplane.selectors.message_figures import figures_of

pytestmark = pytest.mark.django_db


def test_a_row_becomes_figures_and_no_row_is_unknown() -> None:
    now = timezone.now()
    TopicMessages.objects.create(topic="orders", dead_letters=4, sampled_at=now)
    assert figures_of("orders") == MessageFigures(dead_letters=4, sampled_at=now)
    assert figures_of("other") == MessageFigures()
