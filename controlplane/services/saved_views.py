"""Saved views and hidden columns: each user changes their own, viewers too. Nothing of the cluster depends on them."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from django.db import transaction

from controlplane.models import HiddenColumns, SavedView
from controlplane.services.common import Rejected
from weir_common.phrases import sentence

VIEWS_MAX = 100
"""Maximum number of saved views of one user: more than a list that is read at a glance."""
NAME_CHARS_MAX = 80
"""Maximum number of characters of a name: one line of the list. The width of its column."""
ADDRESS_CHARS_MAX = 1000
"""Maximum number of characters of an address: all filters of a page, several times. The width of its column."""
COLUMNS_MAX = 40
"""Maximum number of columns of one table: twice as many as the widest table has."""
TABLE_CHARS_MAX = 40
"""Maximum number of characters of the name of a table. The width of its column."""


def save_view(user_id: int, name: str, address: str) -> int:
    """Save a page under a name; a view of this name is replaced. Returns its id. Raises Rejected."""
    name = " ".join(name.split())
    if not name or len(name) > NAME_CHARS_MAX:
        raise Rejected(sentence("A name has 1 to {max} characters.", max=NAME_CHARS_MAX), "name")
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not address.startswith("/") or address.startswith("//") or "\\" in address:
        raise Rejected("A saved view is a page of this console: a path that begins with one slash.", "address")
    if len(address) > ADDRESS_CHARS_MAX:
        raise Rejected(
            sentence(
                "The address of the page has more than {max} characters; use fewer filters.", max=ADDRESS_CHARS_MAX
            ),
            "address",
        )
    with transaction.atomic():
        mine = SavedView.objects.filter(user_id=user_id)
        if mine.exclude(name=name).count() >= VIEWS_MAX:
            raise Rejected(sentence("You have {max} saved views. Delete one first.", max=VIEWS_MAX))
        row, _ = SavedView.objects.update_or_create(user_id=user_id, name=name, defaults={"address": address})
        return row.pk


def delete_view(user_id: int, view_id: int) -> None:
    """Raises Rejected if the user has no such view."""
    if not SavedView.objects.filter(user_id=user_id, pk=view_id).delete()[0]:
        raise Rejected(sentence("You have no saved view {view_id}; it may have been deleted already.", view_id=view_id))


def hide_columns(user_id: int, table: str, columns: Collection[str]) -> None:
    """Hide exactly these columns of a table. Raises Rejected."""
    if len(table) > TABLE_CHARS_MAX or len(columns) > COLUMNS_MAX or any(len(c) > NAME_CHARS_MAX for c in columns):
        raise Rejected("There is no such table or column.", "columns")
    if columns:
        HiddenColumns.objects.update_or_create(user_id=user_id, table=table, defaults={"columns": sorted(columns)})
    else:
        HiddenColumns.objects.filter(user_id=user_id, table=table).delete()
