"""Properties of every model: a `__str__`, choices for states and kinds, a unit in the help text of every value with a unit."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.db import models

from controlplane.domain.audit_operation import AuditOperation
from weir_common.spark_jobs import KINDS

MODELS = list(apps.get_app_config("controlplane").get_models())
WORDS = re.compile(
    r"(state|state_from|state_to|kind|mode|origin|handover|cause|status|block|severity|outcome|part"
    r"|verb|tail_doubt|retention_limit|permission|operation|pattern_type|resource_type)"
)
FREE = {("ConsumerGroup", "state")}
"""Words that brokers of another version may extend."""
UNITS = (
    (re.compile(r"(?:.*_)?bytes(?:_.*)?"), "bytes"),
    (re.compile(r".*_per_s"), "per second"),
    (re.compile(r".*_ms(?:_max)?"), "milliseconds"),
    (re.compile(r".*_in_s(?:_min|_max)?"), "seconds"),
    (re.compile(r"lag_records"), "records"),
    (re.compile(r".*_hours"), "hours"),
)


def columns(model: type[models.Model]) -> list[models.Field]:  # type: ignore[type-arg]
    return [f for f in model._meta.get_fields() if isinstance(f, models.Field) and f.concrete]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_a_model_has_its_own_text(model: type[models.Model]) -> None:
    assert model.__str__ is not models.Model.__str__
    assert isinstance(str(model()), str)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_states_and_kinds_have_choices(model: type[models.Model]) -> None:
    for f in columns(model):
        if isinstance(f, models.CharField) and WORDS.fullmatch(f.name) and (model.__name__, f.name) not in FREE:
            assert f.choices, f"{model.__name__}.{f.name}"
            values = {v for v, _ in f.flatchoices}
            assert not f.has_default() or f.default in values | ({""} if f.blank else set()), (
                f"{model.__name__}.{f.name}"
            )
            assert all(len(v) <= (f.max_length or 0) for v in values), f"{model.__name__}.{f.name}"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_a_metric_names_its_unit(model: type[models.Model]) -> None:
    for f in columns(model):
        for name, unit in UNITS:
            if not isinstance(f, models.JSONField) and name.fullmatch(f.name):
                assert unit in f.help_text.lower(), f"{model.__name__}.{f.name}: {f.help_text!r}"


def test_the_choices_of_operations_and_jobs_are_those_of_their_tables() -> None:
    """They are functions, so that a new operation or kind of job needs no migration."""
    verbs = dict(apps.get_model("controlplane", "Change")._meta.get_field("verb").flatchoices)
    assert verbs.keys() == set(AuditOperation)
    assert verbs["topic.create"] == "Create topic"
    kinds = dict(apps.get_model("controlplane", "SparkJob")._meta.get_field("kind").flatchoices)
    assert kinds == {name: kind.title for name, kind in KINDS.items()}
