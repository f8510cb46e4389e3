"""The principal of a client certificate: distinguished names in Java's format and Kafka's mapping rules."""

from __future__ import annotations

import pytest

from brokerd.security.principals import distinguished_name, parse_mapping_rules, user_of


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("", "CN=a,O=x", "User:CN=a,O=x"),
        ("DEFAULT", "CN=a,O=x", "User:CN=a,O=x"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=ServiceUsers,O=x", "User:svc"),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=Others", "User:CN=svc,OU=Others"),
        (
            r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=Ad,OU=Ad,O=o,L=l,ST=s,C=c",
            "User:ad@ad",
        ),
        (r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=alice,O=x", "User:ALICE"),
        (r"RULE:^CN=(.*),O=a\/b$/$1/L", "CN=Bob,O=a/b", "User:bob"),
        (r"RULE:^CN=(.*),O=a$/$1/", "CN=Bob,O=b", None),
        (r"RULE:^CN=(.*)$/$1/", "CN=" + "a" * 1_000, None),
        ("", "CN=" + "a" * 1_000, "User:CN=" + "a" * 1_000),
        (r"RULE:^CN=(.*),O=a$/$1/", None, "User:ANONYMOUS"),
    ],
)
def test_mapping_rules_give_the_same_principals_as_kafka(rules: str, name: str | None, user: str | None) -> None:
    assert user_of(name, parse_mapping_rules(rules)) == user


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "default", "RULE:a/b/X"])
def test_malformed_mapping_rules_are_rejected(rules: str) -> None:
    with pytest.raises(ValueError):
        parse_mapping_rules(rules)


def test_a_distinguished_name_has_javas_format() -> None:
    subject = ((("countryName", "DE"),), (("emailAddress", "a@b"),), (("commonName", ' #a+b" '),))
    assert distinguished_name(subject) == 'CN=\\ #a\\+b\\"\\ ,1.2.840.113549.1.9.1=#1603614062,C=DE'
