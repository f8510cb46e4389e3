"""A client.properties file with Kafka's names: its effect on Weir's own connections, on librdkafka and on the pipeline's source."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from brokerd.config.kafka_client import ClientSettings, ClientSettingsError, librdkafka
from tests.pki import Authority

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="weir" password="not \\"this\\"";'


def write_properties(folder: Path, **lines: object) -> Path:
    path = folder / "client.properties"
    path.write_text("# a comment\n\n" + "".join(f"{k.replace('_', '.')} = {v}\n" for k, v in lines.items()))
    return path


def test_a_file_with_kafkas_names_configures_tls_and_sasl(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pem = authority.issue("weir")
    found = ClientSettings.load(
        write_properties(
            tmp_path,
            security_protocol="sasl_ssl",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_jaas_config=JAAS,
            ssl_truststore_type="PEM",
            ssl_truststore_location=authority.ca,
            ssl_keystore_location=pem,
            ssl_endpoint_identification_algorithm="",
        )
    )
    context, sasl_exchange = found.context(), found.sasl_exchange()
    assert context is not None and sasl_exchange is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert [dict(x[0] for x in c["subject"]) for c in context.get_ca_certs()] == [{"commonName": "test authority"}]  # type: ignore[misc,union-attr]
    assert b"SCRAM-SHA-256" in sasl_exchange.begin()
    assert found.librdkafka() == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "weir",
        "sasl.password": 'not "this"',
        "ssl.ca.location": str(authority.ca),
        "ssl.certificate.location": str(pem),
        "ssl.key.location": str(pem),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert "not" not in repr(found)


def test_the_default_is_plaintext() -> None:
    nothing = ClientSettings()
    assert (nothing.protocol, nothing.context(), nothing.sasl_exchange(), nothing.librdkafka()) == (
        "PLAINTEXT",
        None,
        None,
        {},
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"security_protocol": "SASL_SSL"}, "SASL_SSL requires a login in sasl.jaas.config"),
        ({"security_protocol": "TLS"}, "expected one of PLAINTEXT"),
        ({"ssl_truststore_type": "JKS"}, "expected one of PEM"),
        ({"ssl_client_auth": "none"}, "unknown setting ssl.client.auth"),
        ({"sasl_mechanism": "GSSAPI"}, "expected one of PLAIN"),
        ({"sasl_jaas_config": 'required password="hush";'}, "expected ... required username"),
    ],
)
def test_invalid_settings_are_rejected_with_a_message(tmp_path: Path, lines: dict[str, str], message: str) -> None:
    with pytest.raises(ClientSettingsError) as e:
        ClientSettings.load(write_properties(tmp_path, **lines))
    assert message in str(e.value)
    assert "hush" not in str(e.value)


def test_a_missing_or_malformed_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ClientSettingsError, match=r"cannot read the settings file .*none\.properties"):
        ClientSettings.load(tmp_path / "none.properties")
    (tmp_path / "hush").write_text("security.protocol=SSL\nhush hush\n")
    with pytest.raises(ClientSettingsError, match=":2: expected name=value"):
        ClientSettings.load(tmp_path / "hush")


def test_a_java_key_store_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"ssl\.keystore\.type must be PEM"):
        librdkafka({"ssl.keystore.type": "JKS", "ssl.keystore.location": "/x"})
