"""Requests that Schemathesis derives from the OpenAPI schema: every operation answers as the schema says, and bad input gets an error of 4xx.

Half of the requests violate the schema. `make contract N=200` sends more than the fixed sample of `make test`. Not checked: that a request that
fits the schema is accepted, because the state of the cluster and of other fields decides about that too; that a body of wrong types is rejected,
because numbers are accepted for texts.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import schemathesis
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, assume, given, settings
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient
from schemathesis import GenerationMode
from schemathesis.core import NotSet
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from controlplane.selectors.common import TRUTHS
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "3"))
"""Requests of each kind for each operation."""
GROUPS = 8
"""The operations are tested in groups, so that a failure names fewer of them and the workers share them."""
EMPTY = ("", "null", "Null", "NULL")
"""Texts of a query parameter that count as one that is not given."""
CHOSEN = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def token(db: None, settings: Any) -> str:
    """The token of an operator of a cluster with one topic."""
    from django.contrib.auth import get_user_model

    settings.SECRET_KEY_GIVEN = True
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    World().topic("flights", (1, 2), (2, 1))
    return Token.objects.create(user=get_user_model().objects.create_user("alice", is_staff=True)).key


def operations(token: str) -> list[Any]:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    response = client.get("/api/v1/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json")
    schema = schemathesis.openapi.from_dict(json.loads(response.content))
    schema.app = get_wsgi_application()
    return [found.ok() for found in schema.get_all_operations()]


def is_lenient(case: Any) -> bool:
    """Whether the API accepts what the schema forbids: an empty parameter, a repeated one, or another text for true and false."""
    return any(
        isinstance(value, list) or str(value) in EMPTY or str(value).lower() in TRUTHS
        for value in (case.query or {}).values()
    )


def problems_of(operation: Any, mode: GenerationMode, headers: dict[str, str]) -> list[str]:
    problems: list[str] = []

    @CHOSEN
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        excluded = [positive_data_acceptance]
        if mode == GenerationMode.NEGATIVE:
            assume(not is_lenient(case))
            if not isinstance(case.body, NotSet):
                excluded.append(
                    negative_data_rejection
                )  # a number for a text, as in {"retention.ms": 1000}, is accepted
        response = case.call(headers=headers)
        try:
            case.validate_response(response, headers=headers, excluded_checks=excluded)
        except* Exception as e:
            problems.extend(f"{case.formatted_path} {case.query}: {one}" for one in e.exceptions)

    send()
    return problems


@pytest.mark.parametrize("group", range(GROUPS))
def test_operations_answer_as_the_schema_says(token: str, group: int) -> None:
    # Schemathesis' WSGI client does not decompress responses.
    headers = {"Authorization": f"Token {token}", "Accept-Encoding": "identity"}
    chosen = operations(token)[group::GROUPS]
    assert chosen
    problems = [p for operation in chosen for mode in GenerationMode for p in problems_of(operation, mode, headers)]
    assert not problems, "\n\n".join(problems)


@pytest.mark.parametrize(
    "expression",
    [
        "value.",
        "value.amount >",
        "nothing == 1",
        'key + 1 == "a"',
        "partition",
        "__import__('os').system('true')",
        "(" * 500 + "true" + ")" * 500,
        '"' + "a" * 5_000,
    ],
)
def test_a_filter_expression_that_is_not_understood_is_rejected_as_the_schema_says(token: str, expression: str) -> None:
    call_command("read_records", "alice")
    headers = {"Authorization": f"Token {token}", "Accept-Encoding": "identity"}
    paths = {"/api/v1/topics/{name}/messages", "/api/v1/topics/{name}/partitions/{partition}/messages"}
    readings = [o for o in operations(token) if o.path in paths]
    assert {o.path for o in readings} == paths
    for operation in readings:
        names = {"name": "flights", "partition": 0}
        chosen = {n: v for n, v in names.items() if f"{{{n}}}" in operation.path}
        case = operation.Case(path_parameters=chosen, query={"expression": expression})
        response = case.call(headers=headers)
        case.validate_response(response, headers=headers, excluded_checks=[positive_data_acceptance])
        assert response.status_code == 400
        assert [e["field"] for e in response.json()["errors"]] == ["expression"]
