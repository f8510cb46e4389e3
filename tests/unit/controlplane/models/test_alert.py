"""The columns of an alert for the parts of its subject."""

from __future__ import annotations

from brokerd.cluster.rejection_reasons import RejectionReason
from controlplane.domain.alert_types import AlertMetric, ClientRejection, GroupTopic
from controlplane.domain.history import HistorySubject
from controlplane.models import Alert
from controlplane.models.alert import parts_columns


def test_each_kind_of_parts_has_columns_of_the_row() -> None:
    examples = (
        (AlertMetric("lag_s", HistorySubject.GROUP, "a: b"), ["lag_s", "group", "a: b"]),
        (ClientRejection("User:x", RejectionReason.TLS_FAILED), ["User:x", "tls_failed"]),
        (GroupTopic("a: b", "tasks"), ["a: b", "tasks"]),
    )
    for parts, values in examples:
        columns = parts_columns(parts)
        assert list(columns.values()) == values
        assert columns.keys() <= {field.name for field in Alert._meta.get_fields()}
    assert parts_columns(None) == {}
