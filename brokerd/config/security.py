"""Security settings, under Kafka's names: TLS, SASL, authorization. Does not contain their effect."""

from __future__ import annotations

from pathlib import Path

from brokerd.config.types import Setting, one_of, parse_bool, split_items
from brokerd.security.principals import parse_mapping_rules
from brokerd.security.sasl_client import MECHANISMS as CLIENT_MECHANISMS
from brokerd.security.sasl_client import parse_login


def _pem_text(text: str) -> str:
    """PEM on one line. `\\n` is a line break, as in a Java properties file."""
    text = text.replace("\\n", "\n").strip()
    if "-----BEGIN " not in text:
        raise ValueError("expected PEM text that starts with -----BEGIN")
    return text + "\n"


def _tls_versions(text: str) -> tuple[str, ...]:
    versions = split_items(text)
    if not versions or not set(versions) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError("expected TLSv1.2, TLSv1.3 or both")
    return versions


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _mechanisms(text: str) -> tuple[str, ...]:
    mechanisms = tuple(w.upper() for w in split_items(text))
    if not mechanisms or not set(mechanisms) <= set(MECHANISMS):
        raise ValueError(f"expected one or more of {', '.join(MECHANISMS)}")
    return mechanisms


SSL_SETTINGS: tuple[Setting, ...] = (
    Setting("ssl.keystore.type", one_of("PEM"), "PEM", "Format of the key store: PEM.", per_listener=True),
    Setting("ssl.keystore.location", Path, None, "PEM file with the private key and the certificate chain. Reloaded when the file changes.", per_listener=True, live=True),
    Setting("ssl.keystore.key", _pem_text, None, "Private key (PEM), instead of ssl.keystore.location.", per_listener=True, secret=True),
    Setting("ssl.keystore.certificate.chain", _pem_text, None, "Certificate chain of ssl.keystore.key (PEM).", per_listener=True),
    Setting("ssl.key.password", str, None, "Password of the private key.", per_listener=True, secret=True),
    Setting("ssl.truststore.type", one_of("PEM"), "PEM", "Format of the trust store: PEM.", per_listener=True),
    Setting("ssl.truststore.location", Path, None, "PEM file with the trusted CA certificates. Reloaded when the file changes.", per_listener=True, live=True),
    Setting("ssl.truststore.certificates", _pem_text, None, "Trusted CA certificates (PEM), instead of ssl.truststore.location.", per_listener=True),
    Setting("ssl.client.auth", one_of("none", "requested", "required"), "none", "TLS client authentication: none, requested or required.", per_listener=True),
    Setting("ssl.enabled.protocols", _tls_versions, ("TLSv1.2", "TLSv1.3"), "Enabled TLS versions: TLSv1.2, TLSv1.3.", per_listener=True),
    Setting("ssl.cipher.suites", split_items, (), "TLS 1.2 cipher suites, in OpenSSL's names. Empty: OpenSSL's default.", per_listener=True),
    Setting("ssl.endpoint.identification.algorithm", one_of("https", ""), "https", "https: verify the host name in the certificates of other brokers. Empty: do not verify.", per_listener=True),
    Setting("ssl.principal.mapping.rules", parse_mapping_rules, (), "Rules that map the distinguished name of a client certificate to a user name: RULE:pattern/replacement/[LU], ..., DEFAULT.", per_listener=True),
)  # fmt: skip

SASL_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.enabled.mechanisms", _mechanisms, ("SCRAM-SHA-256", "SCRAM-SHA-512"), "Enabled SASL mechanisms for clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.", per_listener=True),
    Setting("sasl.mechanism.inter.broker.protocol", one_of(*CLIENT_MECHANISMS), "SCRAM-SHA-512", "SASL mechanism for connections between brokers."),
    Setting("sasl.jaas.config", parse_login, None, 'SASL login of this broker at other brokers: ... required username="..." password="...";', per_listener=True, secret=True),
    Setting("connections.max.reauth.ms", int, 0, "Maximum time between two SASL authentications on one connection (KIP-368). 0: no re-authentication.", 0),
    Setting("sasl.oauthbearer.jwks.endpoint.url", str, None, "URL of the JWKS with the keys that sign tokens. Only file:///... is supported."),
    Setting("sasl.oauthbearer.expected.audience", split_items, (), "Accepted audiences of a token: one of them must be in the claim aud."),
    Setting("sasl.oauthbearer.expected.issuer", str, None, "Required issuer of a token (claim iss)."),
    Setting("sasl.oauthbearer.clock.skew.seconds", int, 30, "Allowed clock difference between brokers and token issuers.", 0),
    Setting("sasl.oauthbearer.sub.claim.name", str, "sub", "Claim of a token that contains the user name."),
)  # fmt: skip

AUTHORIZERS = ("", "kafka.security.authorizer.AclAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")


def _users(text: str) -> tuple[str, ...]:
    users = tuple(u for u in (part.strip() for part in text.split(";")) if u)
    if not all(":" in u for u in users):
        raise ValueError("expected User:name, separated by semicolons")
    return users


ACCESS_SETTINGS: tuple[Setting, ...] = (
    Setting("authorizer.class.name", one_of(*AUTHORIZERS), "", f"Authorizer. Empty: no authorization, every operation is allowed. {AUTHORIZERS[2]}: ACLs are enforced."),
    Setting("super.users", _users, (), "Users that are allowed every operation, such as the users of the brokers: User:name;User:other."),
    Setting("allow.everyone.if.no.acl.found", parse_bool, False, "Allow every operation on a resource that has no ACL."),
)  # fmt: skip
