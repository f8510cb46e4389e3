"""The settings of security, under Kafka's names. Called by `config`, which joins them to its own. Must not come in: what they mean."""

from __future__ import annotations

from pathlib import Path

from brokerd.access.client import MECHANISMS as CLIENT_MECHANISMS
from brokerd.access.client import parse_login
from brokerd.access.principals import parse_mapping_rules
from brokerd.setting import Setting, one_of, parse_bool, words


def _pem_text(text: str) -> str:
    """PEM on one line: `\\n` stands for a line's end, as in a Java properties file."""
    text = text.replace("\\n", "\n").strip()
    if "-----BEGIN " not in text:
        raise ValueError("expected PEM, which begins with -----BEGIN")
    return text + "\n"


def _tls_versions(text: str) -> tuple[str, ...]:
    wanted = words(text)
    if not wanted or not set(wanted) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError("expected TLSv1.2, TLSv1.3 or both")
    return wanted


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def _mechanisms(text: str) -> tuple[str, ...]:
    wanted = tuple(w.upper() for w in words(text))
    if not wanted or not set(wanted) <= set(MECHANISMS):
        raise ValueError(f"expected some of {', '.join(MECHANISMS)}")
    return wanted


SSL_SETTINGS: tuple[Setting, ...] = (
    Setting("ssl.keystore.type", one_of("PEM"), "PEM", "The form of keys and certificates: PEM.", per_listener=True),
    Setting("ssl.keystore.location", Path, None, "PEM file with the private key and the certificate chain. Read again when it changes.", per_listener=True, live=True),
    Setting("ssl.keystore.key", _pem_text, None, "The private key itself, instead of a file (PEM).", per_listener=True, secret=True),
    Setting("ssl.keystore.certificate.chain", _pem_text, None, "The certificate chain that goes with ssl.keystore.key (PEM).", per_listener=True),
    Setting("ssl.key.password", str, None, "Opens an encrypted private key.", per_listener=True, secret=True),
    Setting("ssl.truststore.type", one_of("PEM"), "PEM", "The form of trusted certificates: PEM.", per_listener=True),
    Setting("ssl.truststore.location", Path, None, "PEM file with the certificates trusted to sign others. Read again when it changes.", per_listener=True, live=True),
    Setting("ssl.truststore.certificates", _pem_text, None, "Trusted certificates themselves, instead of a file (PEM).", per_listener=True),
    Setting("ssl.client.auth", one_of("none", "requested", "required"), "none", "Whether clients show a certificate: none, requested, required.", per_listener=True),
    Setting("ssl.enabled.protocols", _tls_versions, ("TLSv1.2", "TLSv1.3"), "Versions of TLS that are spoken.", per_listener=True),
    Setting("ssl.cipher.suites", words, (), "Cipher suites of TLS 1.2, in OpenSSL's names; empty: OpenSSL's choice.", per_listener=True),
    Setting("ssl.endpoint.identification.algorithm", one_of("https", ""), "https", "Whether the names in other brokers' certificates are checked; empty: not.", per_listener=True),
    Setting("ssl.principal.mapping.rules", parse_mapping_rules, (), "How a certificate's name becomes a user: RULE:pattern/replacement/[LU], ..., DEFAULT.", per_listener=True),
)  # fmt: skip

SASL_SETTINGS: tuple[Setting, ...] = (
    Setting("sasl.enabled.mechanisms", _mechanisms, ("SCRAM-SHA-256", "SCRAM-SHA-512"), "How clients may prove who they are: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.", per_listener=True),
    Setting("sasl.mechanism.inter.broker.protocol", one_of(*CLIENT_MECHANISMS), "SCRAM-SHA-512", "How this broker proves it to the others."),
    Setting("sasl.jaas.config", parse_login, None, 'As whom: ... required username="..." password="...";', per_listener=True, secret=True),
    Setting("connections.max.reauth.ms", int, 0, "After this long a client must prove anew who it is; 0: never.", 0),
    Setting("sasl.oauthbearer.jwks.endpoint.url", str, None, "The keys that sign tokens: file:///..., a JWKS file."),
    Setting("sasl.oauthbearer.expected.audience", words, (), "A token must be meant for one of these."),
    Setting("sasl.oauthbearer.expected.issuer", str, None, "A token must come from here."),
    Setting("sasl.oauthbearer.clock.skew.seconds", int, 30, "How far the clocks of brokers and issuers may differ.", 0),
    Setting("sasl.oauthbearer.sub.claim.name", str, "sub", "The claim that names the user."),
)  # fmt: skip

AUTHORIZERS = ("", "kafka.security.authorizer.AclAuthorizer", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")


def _users(text: str) -> tuple[str, ...]:
    users = tuple(u for u in (part.strip() for part in text.split(";")) if u)
    if not all(":" in u for u in users):
        raise ValueError("expected User:name, several by semicolons")
    return users


ACCESS_SETTINGS: tuple[Setting, ...] = (
    Setting("authorizer.class.name", one_of(*AUTHORIZERS), "", f"Empty: everybody may do everything. {AUTHORIZERS[2]}: ACLs count."),
    Setting("super.users", _users, (), "Who may do everything, the brokers among them: User:name;User:other."),
    Setting("allow.everyone.if.no.acl.found", parse_bool, False, "Whether what no ACL speaks of is open to all."),
)  # fmt: skip
