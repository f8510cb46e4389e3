"""Forms of connectors: which config is where, and what is sent."""

from __future__ import annotations

from console.connect_forms import ConnectorForm, given_config
from controlplane.domain.errors import MisfitValue, Rejected
from controlplane.services.connect import ConnectorConfigField


def config_field(name: str, kind: str = "STRING", importance: str = "LOW", **more: object) -> ConnectorConfigField:
    known: dict[str, object] = {"is_required": False, "default": None, "documentation": "", "group": "", "value": None}
    known |= {"recommended": [], "errors": []}
    return ConnectorConfigField(name=name, type=kind, importance=importance, **{**known, **more})  # type: ignore[arg-type]


FIELDS = [
    config_field("name", importance="HIGH"),
    config_field("topics", importance="HIGH"),
    config_field("url", is_required=True),
    config_field("auth", "PASSWORD"),
    config_field("create", "BOOLEAN", default="false"),
    config_field("mode", recommended=["insert", "upsert"]),
    config_field("wrong", errors=["no"]),
]
CONFIG = {"name": "a", "connector.class": "C", "auth": "********", "transforms": "x", "query": "select\n1"}


def test_important_set_and_wrong_configs_come_first_and_unknown_ones_are_lines() -> None:
    form = ConnectorForm(FIELDS, CONFIG, is_new=False)
    main = [f.name for f in form.main_fields]
    assert main == ["c:topics", "c:url", "c:auth", "c:wrong", "c:query", "extra", "comment"]
    assert [f.name for f in form.more_fields] == ["c:create", "c:mode"]
    assert form["extra"].initial == "transforms=x" and form["c:query"].initial == "select\n1"
    assert "insert, upsert" in str(form["c:mode"].help_text) and 'type="password"' in str(form["c:auth"])
    assert next(f.name for f in ConnectorForm(FIELDS, {}, is_new=True).main_fields) == "name"


def test_a_boolean_with_another_value_is_a_text() -> None:
    assert "<select" in str(ConnectorForm(FIELDS, {"create": "true"}, is_new=False)["c:create"])
    assert "<input" in str(ConnectorForm(FIELDS, {"create": "${env:CREATE}"}, is_new=False)["c:create"])


def test_an_empty_field_is_a_config_that_is_not_set() -> None:
    sent = {"c:topics": " t ", "c:url": "", "extra": "transforms=x\nodd", "comment": "c", "c:query": "a\r\nb"}
    config, problems = given_config(sent)
    assert config == {"topics": " t ", "transforms": "x", "query": "a\nb"} and len(problems) == 1


def test_an_error_is_beside_its_config() -> None:
    form = ConnectorForm(FIELDS, {}, {"name": "a", "comment": "c"}, is_new=True)
    assert form.is_valid()
    form.reject(MisfitValue("config", [("$.url", "no host"), ("$.transforms.x.type", "unknown"), ("$.name", "taken")]))
    form.reject(Rejected("later", ""))
    assert form.errors["c:url"] == ["no host"] and form.errors["extra"] == ["transforms.x.type: unknown"]
    assert form.errors["name"] == ["taken"] and form.non_field_errors() == ["later"]
