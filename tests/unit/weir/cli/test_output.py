"""Text for a terminal."""

from __future__ import annotations

from weir.cli.output import lines


def test_a_table_has_the_columns_that_fit_and_have_values() -> None:
    rows = [
        {"name": "flights", "state": "active", "note": "", "size": 1200, "tags": {"a": 1}},
        {"name": "o", "state": "active", "note": None, "size": 5, "tags": {}},
    ]
    assert list(lines(rows, 80)) == ["NAME     STATE   SIZE", "flights  active  1200", "o        active     5"]
    assert list(lines(rows, 16)) == [
        "NAME     STATE",
        "flights  active",
        "o        active",
        "Columns that do not fit: size. `weir -o json` prints all.",
    ]


def test_columns_that_say_what_is_wrong_are_shown_before_others() -> None:
    rows = [{"group_id": "billing", "assignor": "range", "coordinator": 1, "lag_records": 5, "status": "stopped"}]
    assert list(lines(rows, 36)) == [
        "GROUP_ID  LAG_RECORDS  STATUS",
        "billing             5  stopped",
        "Columns that do not fit: assignor, coordinator. `weir -o",
        "json` prints all.",
    ]
    assert next(lines(rows, 80)) == "GROUP_ID  ASSIGNOR  COORDINATOR  LAG_RECORDS  STATUS"


def test_a_page_shows_the_cursor_of_the_next_page() -> None:
    page = {
        "rows": [{"id": 1}],
        "total": 5,
        "limit": 1,
        "next_cursor": "WyJpZCJd:abc",
        "sort": "",
        "query": "",
        "complete": False,
    }
    assert list(lines(page, 80)) == ["ID", " 1", "complete  no", "1 of 5; the next page: --cursor WyJpZCJd:abc"]


def test_an_object_has_its_lists_as_tables() -> None:
    data = {"name": "t", "age_s": 0.5, "ok": True, "none": None, "replicas": [{"broker": 1}], "configs": {"a": "b"}}
    assert list(lines(data, 80)) == [
        "name      t",
        "age_s     0.5",
        "ok        yes",
        "none      -",
        "replicas:",
        "  BROKER",
        "       1",
        "configs:",
        "  a  b",
    ]


def test_an_object_inside_an_object_has_a_line_per_name() -> None:
    data = {"row": {"name": "orders", "limits": {"rate": 5}, "empty": {}}, "age_s": 1}
    assert list(lines(data, 80)) == [
        "row:",
        "  name    orders",
        "  limits:",
        "    rate  5",
        "  empty   {}",
        "age_s  1",
    ]


def test_a_list_that_does_not_fit_has_a_line_per_item() -> None:
    data = {"safe": False, "blockers": ["orders-0: no other replica.", "orders-1: no other replica."]}
    assert list(lines(data, 80))[1] == 'blockers  ["orders-0: no other replica.", "orders-1: no other replica."]'
    assert list(lines(data, 40)) == [
        "safe      no",
        "blockers:",
        "  orders-0: no other replica.",
        "  orders-1: no other replica.",
    ]


def test_an_empty_list_and_a_text() -> None:
    assert list(lines([], 80)) == ["none"]
    assert list(lines("a\nb\n", 80)) == ["a", "b"]
    assert list(lines([1, 2], 80)) == ["[1, 2]"]
