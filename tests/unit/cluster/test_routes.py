"""The stored form of routes, and what is rejected."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import AccessChanged, ClusterCreated, record_from_json, record_to_json
from brokerd.cluster.routes import (
    BINDINGS_MAX,
    Binding,
    HeaderRule,
    InvalidRoute,
    Match,
    MatchKind,
    RouteStart,
    SampleBy,
    Transformation,
    route_of,
)

VALUE: dict[str, Any] = {
    "route_id": "id",
    "source": "orders",
    "start": "earliest",
    "enabled": False,
    "partitions_at_start": 3,
    "owner": "ops",
    "bindings": [
        {"target": "b", "match": {"kind": "key", "value": ""}},
        {
            "target": "a",
            "match": {"kind": "headers_any", "headers": [{"name": "n", "value": None}, {"name": "m", "value": "ü"}]},
            "sample_percent": 12.5,
            "sample_by": "offset",
            "set_headers": [{"name": "x", "value": "1"}],
            "remove_headers": ["y"],
            "key_from_header": "z",
            "drop_key": False,
        },
    ],
}


def test_a_stored_route_is_read() -> None:
    route = route_of("r", 4, VALUE)
    assert (route.group, route.targets, route.enabled, route.start) == (
        "weir.route.r",
        ("a", "b"),
        False,
        RouteStart.EARLIEST,
    )
    assert route.bindings == (
        Binding("b", Match(MatchKind.KEY, "")),
        Binding(
            "a",
            Match(MatchKind.HEADERS_ANY, "", (HeaderRule("n", None), HeaderRule("m", "ü".encode()))),
            12.5,
            SampleBy.OFFSET,
            Transformation((("x", b"1"),), ("y",), "z", False),
        ),
    )


def test_a_route_is_an_access_record_and_survives_a_snapshot() -> None:
    record = AccessChanged("route", "r", 4, VALUE)
    assert record_to_json(record) == {
        "type": "AccessChanged",
        "version": 1,
        "kind": "route",
        "key": "r",
        "generation": 4,
        "value": VALUE,
    }
    image = Image()
    image.apply(ClusterCreated("c", 8))
    image.apply(record_from_json(record_to_json(record)))
    again = Image.from_records(image.records(), 1, "", 0)
    assert again.access_to("route", "r") == (4, VALUE)


def binding(**changes: Any) -> dict[str, Any]:
    return {"bindings": [{"target": "t", "match": {"kind": "all"}, **changes}]}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": None}, "source"),
        ({"start": "middle"}, "start"),
        ({"bindings": "x"}, "bindings"),
        ({"bindings": [7]}, "bindings.0"),
        ({"bindings": [{"target": "t", "match": {"kind": "all"}}] * (BINDINGS_MAX + 1)}, "bindings"),
        (binding(target="." * 300), "bindings.0.target"),
        (binding(target="__transaction_state"), "bindings.0.target"),
        (binding(match=None), "bindings.0.match"),
        (binding(match={"kind": "pattern", "value": ""}), "bindings.0.match.value"),
        (binding(match={"kind": "pattern", "value": "#." * 60}), "bindings.0.match.value"),
        (binding(match={"kind": "headers_all", "headers": []}), "bindings.0.match.headers"),
        (binding(match={"kind": "headers_all", "headers": [{"name": ""}]}), "bindings.0.match.headers.0.name"),
        (binding(sample_percent=True), "bindings.0.sample_percent"),
        (binding(sample_by="time"), "bindings.0.sample_by"),
        (binding(drop_key=True, key_from_header="h"), "bindings.0.drop_key"),
        (binding(regex="x"), "bindings.0"),
        (binding(match={"kind": "all", "regex": "x"}), "bindings.0.match"),
        (binding(match={"kind": "key", "value": "\ud800"}), "bindings.0.match.value"),
        (binding(match={"kind": "key", "value": "a\0"}), "bindings.0.match.value"),
        (binding(match={"kind": []}), "bindings.0.match.kind"),
        ({"principal": "alice"}, "principal"),
        ({"principal": "User:"}, "principal"),
        ({"principal": "User:*"}, "principal"),
        ({"principal": "Group:a"}, "principal"),
        ({"principal": "User:" + "a" * 500}, "principal"),
        ({"principal": 7}, "principal"),
        ({"partitions_at_start": "3"}, "partitions_at_start"),
        ({"start": 3}, "start"),
    ],
)
def test_what_is_rejected_names_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRoute) as error:
        route_of("r", 1, {**VALUE, **changes})
    assert error.value.field == field


def test_a_principal_is_optional() -> None:
    assert route_of("r", 1, VALUE).principal == route_of("r", 1, {**VALUE, "principal": ""}).principal == ""
    assert route_of("r", 1, {**VALUE, "principal": "User:CN=a:b"}).principal == "User:CN=a:b"


def test_names_are_bounded() -> None:
    with pytest.raises(InvalidRoute):
        route_of("a b", 1, VALUE)
