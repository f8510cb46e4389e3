"""Live tails need the permission to read records, are limited, masked as reads are, and recorded in the audit log with start and end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied

from brokerd.wire.records import Record
from controlplane.domain.record_filter import RecordFilters
from controlplane.domain.record_query import RecordQuery
from controlplane.domain.record_scan import Chunk, FetchRange
from controlplane.domain.record_tail import TailEnd
from controlplane.models import Change
from controlplane.selectors import record_tails as selectors
from controlplane.services import Rejected, masking, record_tails
from controlplane.services.record_tails import LiveTail
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
SECRET = b"4111-1111"
QUERY = RecordQuery("orders")


class Leaders:
    """Every poll of partition 0 finds one more record; the key is a secret."""

    def __init__(self, *_: Any) -> None:
        self.closed = False

    def renew(self, seconds: float) -> None:
        pass

    def load_leaders(self) -> None:
        pass

    def log_ranges(self, partitions: list[int]) -> Any:
        return dict.fromkeys(partitions, (0, 10)), {}

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        at = ranges[0].offset
        record = Record(at, 1_700_000_000_000, SECRET, b'{"card": "4111-1111", "name": "Ann"}')
        return {0: Chunk(at + 1, [record], 10, end=at + 1)}

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("orders", (1, 2))
    world.topic("__consumer_offsets", (1, 2))
    monkeypatch.setattr(selectors, "RecordReaderClient", Leaders)


@pytest.fixture
def opened_tails() -> Iterator[list[LiveTail]]:
    opened: list[LiveTail] = []
    yield opened
    for tail in opened:
        tail.close(TailEnd.STOPPED)


def person(name: str, *, permitted: bool = True, **more: Any) -> Any:
    user = get_user_model().objects.create_user(name, **more)
    if permitted:
        user.user_permissions.add(Permission.objects.get(codename="read_records"))
    return user


def test_start_and_end_are_in_the_audit_log() -> None:
    tail = LiveTail(person("ann"), RecordQuery("orders", (0,), filters=RecordFilters(value_contains="Ann")))
    start = Change.objects.get()
    assert (start.actor, start.verb, start.object_kind, start.object_name) == (
        "ann",
        "records.tail",
        "records",
        "orders-0",
    )
    assert start.after == {"topic": "orders", "partitions": "0", "value_contains": "Ann"}
    assert len(tail.update(paused=False).rows) == 1
    assert tail.update(paused=True).rows == []
    tail.close(TailEnd.HIDDEN)
    end = Change.objects.latest("id")
    assert (end.verb, end.outcome, end.object_name) == ("records.tail_end", "confirmed", "orders-0")
    assert end.after["end"] == "hidden" and (end.after["shown"], end.after["passed_over"]) == (1, 1)


def test_a_tail_needs_the_permission_and_internal_topics_an_administrator() -> None:
    viewer = person("viewer", permitted=False, is_staff=True)
    with pytest.raises(PermissionDenied):
        LiveTail(viewer, QUERY)
    with pytest.raises(PermissionDenied):
        LiveTail(person("ann"), RecordQuery("__consumer_offsets"))
    assert [c.outcome for c in Change.objects.all()] == ["refused", "refused"]
    assert not record_tails.limits._running


def test_masking_rules_apply_also_to_the_filters(opened_tails: list[LiveTail]) -> None:
    masking.create_rule(topics="orders", target="key", field="", actor="root")
    masking.create_rule(topics="orders", target="value", field="$.card", actor="root")
    reader = person("ann")
    opened_tails.append(LiveTail(reader, QUERY))
    (row,) = opened_tails[0].update(paused=False).rows
    assert "4111" not in f"{row.key}{row.value}" and "Ann" in str(row.value)
    opened_tails.append(LiveTail(reader, RecordQuery("orders", filters=RecordFilters(value_contains="4111"))))
    assert opened_tails[1].update(paused=False).rows == []
    opened_tails.append(LiveTail(person("op", is_staff=True), QUERY))
    assert opened_tails[2].update(paused=False).rows[0].key == SECRET.decode()


def test_permission_and_masking_rules_are_read_again(
    opened_tails: list[LiveTail], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_tails, "RECHECK_SECONDS", 0.0)
    reader = person("ann")
    opened_tails.append(LiveTail(reader, QUERY))
    assert opened_tails[0].update(paused=False).rows[0].key == SECRET.decode()
    masking.create_rule(topics="orders", target="key", field="", actor="root")
    assert opened_tails[0].update(paused=False).rows[0].key_format == "masked"
    reader.user_permissions.clear()
    with pytest.raises(PermissionDenied):
        opened_tails[0].update(paused=False)
    get_user_model().objects.filter(pk=reader.pk).update(is_active=False)
    with pytest.raises(PermissionDenied):
        opened_tails[0].update(paused=False)


def test_a_tail_starts_with_the_stored_permissions_of_the_user() -> None:
    reader = person("ann")
    assert reader.has_perm("controlplane.read_records")  # the object keeps them
    get_user_model().objects.get(username="ann").user_permissions.clear()
    with pytest.raises(PermissionDenied):
        LiveTail(reader, QUERY)


def test_tails_are_limited_by_user_and_by_process(settings: Any, opened_tails: list[LiveTail]) -> None:
    from dataclasses import replace

    settings.WEIR = replace(settings.WEIR, tails_per_user=2, tails_max=3)
    ann, bob = person("ann"), person("bob")
    opened_tails += [LiveTail(ann, QUERY), LiveTail(ann, QUERY)]
    with pytest.raises(Rejected) as rejection:
        LiveTail(ann, QUERY)
    assert "WEIR_TAILS_PER_USER" in rejection.value.reason and Change.objects.latest("id").outcome == "refused"
    opened_tails.append(LiveTail(bob, QUERY))
    with pytest.raises(Rejected) as rejection:
        LiveTail(bob, QUERY)
    assert "WEIR_TAILS_MAX" in rejection.value.reason
    opened_tails.pop(0).close(TailEnd.STOPPED)
    opened_tails.append(LiveTail(bob, QUERY))


@pytest.mark.parametrize("query", [RecordQuery("absent"), RecordQuery("orders", (7,)), RecordQuery("orders", limit=0)])
def test_an_invalid_query_takes_no_place(query: RecordQuery) -> None:
    with pytest.raises(Rejected):
        LiveTail(person("ann"), query)
    assert not record_tails.limits._running
