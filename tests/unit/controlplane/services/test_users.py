"""SCRAM users: all credentials of a user change together, and a password is stored nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection

from brokerd.security import scram
from controlplane.models import AccessEntry, Change
from controlplane.selectors import users as selectors
from controlplane.services import access, users
from controlplane.services.common import AlreadyExists, Rejected

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def everything_stored() -> str:
    """All rows of all tables, as text."""
    with connection.cursor() as cursor:
        out = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            out.append(str(cursor.fetchall()))
    return "".join(out)


def test_a_user_has_keys_of_its_password_for_each_mechanism_and_the_password_is_not_stored() -> None:
    assert users.create_user("ann", password=PASSWORD, iterations=5000, actor="op", comment="new service") is None
    rows = {r.key: r for r in AccessEntry.objects.all()}
    assert set(rows) == {"SCRAM-SHA-256:ann", "SCRAM-SHA-512:ann"}
    for row in rows.values():
        assert access.password_fits(row, PASSWORD) and row.waiting and (row.value or {})["iterations"] == 5000
        assert row.value is not None
        keys = json.dumps(list(Change.objects.values("before", "after", "comment", "detail", "object_name")))
        assert row.value["stored_key"] not in keys and row.value["salt"] not in keys
    assert PASSWORD not in everything_stored()
    changes = [
        (c.actor, c.verb, c.object_kind, c.object_name, c.comment) for c in Change.objects.order_by("object_name")
    ]
    assert changes == [
        ("op", "scram.create", "scram", f"{mechanism}:ann", "new service") for mechanism in scram.ALGORITHMS
    ]


def test_a_generated_password_is_returned_once_and_fits() -> None:
    first = users.create_user("ann", actor="op", mechanisms=["SCRAM-SHA-512"])
    second = users.change_password("ann", actor="op", comment="leaked")
    assert first is not None and second is not None and len(first) >= 32 and first != second
    (row,) = AccessEntry.objects.all()
    assert access.password_fits(row, second) and not access.password_fits(row, first)
    assert first not in everything_stored() and second not in everything_stored()


def test_a_change_of_the_password_keeps_mechanisms_and_iterations() -> None:
    users.create_user("ann", password=PASSWORD, iterations=6000, actor="op")
    users.change_password("ann", password="another password", actor="op")
    rows = list(AccessEntry.objects.all())
    assert len(rows) == 2 and all(access.password_fits(r, "another password") for r in rows)
    assert {(r.value or {})["iterations"] for r in rows} == {6000} and {r.generation for r in rows} == {2}


def test_a_deleted_user_leaves_rows_without_a_value_and_can_be_created_again() -> None:
    users.create_user("ann", password=PASSWORD, actor="op")
    users.delete_user("ann", actor="op", comment="left")
    assert [(r.value, r.generation) for r in AccessEntry.objects.all()] == [(None, 2)] * 2
    assert selectors.user_detail("ann") is None and selectors.user_list().total == 0
    users.create_user("ann", password=PASSWORD, actor="op")
    assert {r.generation for r in AccessEntry.objects.all()} == {3}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " ann"}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"password": "short"}, "password"),
        ({"password": "x" * 257}, "password"),
        ({"password": "with\x00control"}, "password"),
        ({"mechanisms": []}, "mechanisms"),
        ({"mechanisms": ["PLAIN"]}, "mechanisms"),
        ({"iterations": 4095}, "iterations"),
        ({"iterations": 16385}, "iterations"),
    ],
)
def test_invalid_input_is_rejected_and_the_rejection_has_no_password(arguments: dict[str, Any], field: str) -> None:
    given = {"name": "ann", "password": PASSWORD, **arguments}
    with pytest.raises(Rejected) as rejection:
        users.create_user(**given, actor="op")
    assert rejection.value.field == field and not AccessEntry.objects.exists()
    (change,) = Change.objects.all()
    assert (change.verb, change.outcome, change.after) == ("scram.create", "refused", None)
    assert given["password"] not in everything_stored()


def test_an_existing_user_is_not_replaced_and_a_missing_one_is_neither_changed_nor_deleted() -> None:
    users.create_user("ann", password=PASSWORD, actor="op", mechanisms=["SCRAM-SHA-256"])
    with pytest.raises(AlreadyExists):
        users.create_user("ann", password="another password", actor="op", mechanisms=["SCRAM-SHA-512"])
    (row,) = AccessEntry.objects.all()
    assert access.password_fits(row, PASSWORD)
    for act in (users.change_password, users.delete_user):
        with pytest.raises(Rejected, match="There is no SCRAM user 'bob'"):
            act("bob", actor="op", comment="x")
