"""Rights from the groups of a directory, and the texts of rejections."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controlplane.domain.external_login import (
    REJECTIONS,
    SHOWN_MAX,
    ExternalUser,
    GroupRules,
    LoginRejected,
    LoginRejection,
    LoginSource,
    UserRights,
    claim,
    group_names,
    name_list,
    rights_of,
)

RULES = GroupRules({"g-1": "payments", "ops": "ops"}, viewers=("staff",), operators=("ops",), admins=("root",))


def user(*groups: str) -> ExternalUser:
    return ExternalUser(LoginSource.OIDC, "https://id", "s-1", "alice", "", frozenset(groups))


@pytest.mark.parametrize(
    ("groups", "rights"),
    [
        (["g-1"], UserRights(frozenset({"payments"}), False, False)),
        (["staff", "other"], UserRights(frozenset(), False, False)),
        (["ops"], UserRights(frozenset({"ops"}), True, False)),
        (["root"], UserRights(frozenset(), True, True)),
        (["root", "g-1"], UserRights(frozenset({"payments"}), True, True)),
    ],
)
def test_rights_are_a_function_of_groups(groups: list[str], rights: UserRights) -> None:
    assert rights_of(user(*groups), RULES) == rights


@pytest.mark.parametrize("rules", [RULES, GroupRules({})])
def test_a_user_in_no_configured_group_is_rejected_with_the_names_of_the_configured_groups(rules: GroupRules) -> None:
    with pytest.raises(LoginRejected) as rejection:
        rights_of(user("sales"), rules)
    assert rejection.value.rejection == LoginRejection.NO_GROUP
    assert rejection.value.values["groups"] == "sales"
    assert rejection.value.values["needed"] == ("g-1, ops, root, staff" if rules is RULES else "-")


def test_everyone_may_be_a_viewer() -> None:
    assert rights_of(user(), GroupRules({}, viewers=("*",))) == UserRights(frozenset(), False, False)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (["a", "b", 7, "", None, {}], {"a", "b", "7"}),
        ("a", {"a"}),
        ("", set()),
        (None, set()),
        ({"a": 1}, set()),
        (3, set()),
    ],
)
def test_groups_of_a_claim(value: Any, names: set[str]) -> None:
    assert group_names(value) == names


def test_a_claim_by_its_name_or_its_path() -> None:
    claims = {"a.b": 1, "a": {"b": 2, "c": {"d": []}}, "n": None}
    assert (claim(claims, "a.b"), claim(claims, "a.c.d"), claim(claims, "a.x.d"), claim(claims, "n")) == (
        1,
        [],
        None,
        None,
    )


def test_a_long_list_of_names_is_cut() -> None:
    names = [f"g{n:02d}" for n in range(SHOWN_MAX + 1)]
    assert name_list(names).endswith(f"g19, ... ({SHOWN_MAX + 1})") and name_list(["a", "b"]) == "a, b"


def test_every_rejection_has_a_sentence() -> None:
    assert set(REJECTIONS) == set(LoginRejection)
    fields = {name for text in REJECTIONS.values() for name in re.findall(r"{(\w+)}", text)}
    for rejection in LoginRejection:
        assert "{" not in str(LoginRejected(rejection, **dict.fromkeys(fields, "x")))
