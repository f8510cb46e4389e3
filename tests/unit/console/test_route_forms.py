"""Forms of routes: JSON of bindings, headers of a tested record."""

from __future__ import annotations

import json
import re

from brokerd.cluster.routes import route_of
from console.route_forms import BINDINGS_HELP, EXAMPLE, RouteChangeForm, RouteForm, RouteTestForm


def test_the_bindings_may_be_json() -> None:
    fields = {"name": "r", "source": "s", "start": "latest", "bindings": EXAMPLE, "enabled": "on"}
    form = RouteForm(fields, as_json=True)
    assert form.is_valid(), form.errors
    assert form.definition() == {
        "source": "s",
        "start": "latest",
        "bindings": [{"target": "paid", "match": {"kind": "key", "value": "paid"}}],
        "enabled": True,
        "owner": "",
        "description": "",
        "principal": "",
    }
    assert [*form.fields][:3] == ["name", "source", "start"]
    assert "Not valid JSON" in str(RouteChangeForm({"bindings": "{"}, as_json=True).errors["bindings"])


def test_headers_are_lines() -> None:
    form = RouteTestForm({"key": "", "headers": "a=b=c\n\n x =1"})
    assert form.is_valid() and form.cleaned_data["headers"] == [("a", "b=c"), (" x ", "1")]
    assert "no &#x27;=&#x27;" in str(RouteTestForm({"key": "", "headers": "a"}).errors["headers"])


def test_the_help_has_an_example_of_headers_that_is_accepted() -> None:
    found = re.search(r"\[\{.*?\}\]", str(BINDINGS_HELP))
    assert found is not None
    match = {"kind": "headers_any", "headers": json.loads(found[0])}
    definition = {"route_id": "id", "source": "s", "start": "latest", "enabled": True, "partitions_at_start": 1}
    route = route_of("r", 1, {**definition, "bindings": [{"target": "paid", "match": match}]})
    assert [(h.name, h.value) for h in route.bindings[0].match.headers] == [("kind", b"paid")]
