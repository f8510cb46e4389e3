"""SCRAM: the RFC's example, client and server against each other, and invalid proofs."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.cluster.access_values import InvalidAccessValue
from brokerd.security import scram
from controlplane.services.access import acl_key

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def known_credential(
    mechanism: str = "SCRAM-SHA-256", password: str = "pencil", salt: bytes = SALT
) -> scram.Credential:
    return scram.credential(mechanism, scram.salt_password(mechanism, password, salt, 4096), salt, 4096)


def test_the_example_of_rfc_7677() -> None:
    server = scram.Server("SCRAM-SHA-256", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    server.parse_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert server.user == "user"
    assert server.challenge(known_credential()) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = server.final_message(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", scram.ALGORITHMS)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "größe"])
def test_only_a_client_with_the_password_authenticates(mechanism: str, user: str) -> None:
    for password, fits in (("pencil", True), ("pencil ", False)):
        client, server = scram.Client(mechanism, user, password, "abc"), scram.Server(mechanism, "def")
        server.parse_first(client.first_message())
        assert server.user == user
        proof = client.final_message(server.challenge(known_credential(mechanism)))
        if fits:
            client.confirm(server.final_message(proof))
        else:
            with pytest.raises(scram.ScramError):
                server.final_message(proof)


def test_a_server_without_the_keys_is_rejected() -> None:
    client = scram.Client("SCRAM-SHA-256", "user", "pencil", "abc")
    client.first_message()
    client.final_message(b"r=abcdef,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    with pytest.raises(scram.ScramError):
        client.confirm(b"v=" + base64.b64encode(bytes(32)))
    for challenge in (b"r=xyz,s=AAAA,i=4096", b"r=abcdef,s=AAAA,i=1", b"r=abcdef,s=AAAA,i=100000000"):
        with pytest.raises(scram.ScramError):
            client.final_message(challenge)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"p=tls-unique,,n=u,r=x",
        b"n,,r=x",
        b"n,,n=u",
        b"n,,m=1,n=u,r=x",
        b"n,a=other,n=u,r=x",
        b"n,,n=a=b,r=x",
        b"\xff",
        b"n,,n=u,n=v,r=x",
        b"n" * 5000,
    ],
)
def test_a_malformed_first_message_is_rejected(first: bytes) -> None:
    with pytest.raises(scram.ScramError):
        scram.Server("SCRAM-SHA-256", "s").parse_first(first)


@given(st.binary(max_size=300))
def test_only_a_final_message_with_the_proof_authenticates(last: bytes) -> None:
    server = scram.Server("SCRAM-SHA-256", "s")
    server.parse_first(b"n,,n=u,r=c")
    server.challenge(known_credential())
    for message in (last, b"c=biws,r=cs,p=" + base64.b64encode(last), b"c=biws,r=cs," + last):
        with pytest.raises(scram.ScramError):
            server.final_message(message)


def test_an_unknown_user_is_indistinguishable_and_rejected() -> None:
    decoy = scram.decoy_credential("SCRAM-SHA-512", "nobody", b"secret")
    assert (
        decoy
        == scram.decoy_credential("SCRAM-SHA-512", "nobody", b"secret")
        != scram.decoy_credential("SCRAM-SHA-512", "other", b"secret")
    )
    client, server = scram.Client("SCRAM-SHA-512", "nobody", "", "abc"), scram.Server("SCRAM-SHA-512", "def")
    server.parse_first(client.first_message())
    with pytest.raises(scram.ScramError):
        server.final_message(client.final_message(server.challenge(decoy)))


def test_stored_credentials_have_no_password_and_read_back() -> None:
    kept = known_credential().to_json()
    assert scram.Credential.from_json(kept) == known_credential()
    assert "pencil" not in str(kept) + repr(known_credential())
    assert scram.password_fits("SCRAM-SHA-256", "pencil", known_credential())
    assert not scram.password_fits("SCRAM-SHA-256", "Pencil", known_credential())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"iterations": "many"}, "iterations: invalid value 'many', expected a number"),
        ({"stored_key": None}, "stored_key: invalid value NoneType, expected a string"),
        ({"salt": "A"}, "salt: invalid value str, expected base64"),
    ],
)
def test_an_invalid_stored_credential_is_rejected_without_its_keys(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidAccessValue, match=f"^{message}$"):
        scram.Credential.from_json({**known_credential().to_json(), **changes})


def test_two_acls_have_two_keys() -> None:
    one = dict.fromkeys(("resource_type", "pattern_type", "host", "operation", "permission"), "x")
    assert acl_key({**one, "resource_name": "a|b", "principal": "c"}) != acl_key(
        {**one, "resource_name": "a", "principal": "b|c"}
    )
