"""Security of a local cluster (`up --secure`): SASL_SSL on every listener, also between brokers; ACLs; TLS and SASL for ZooKeeper.

Invariants: every port of brokers and ZooKeeper requires TLS and a password. Secrets are in files with mode 600, never in a command line.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from controlplane.devcluster.layout import ClusterFacts, Layout
from controlplane.devcluster.pki import Authority
from controlplane.devcluster.zookeeper import ZooKeeperSecurity
from weir_common.files import write_private

MECHANISM = "SCRAM-SHA-512"
BROKER, OPERATOR = "weir-broker", "weir"
"""Kafka users: one for the brokers; one for the control plane, the pipeline and the demo. Both are super users."""
_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="{}" password="{}";'


def facts(layout: Layout, old: ClusterFacts) -> ClusterFacts:
    """The security entries of local-cluster.json. Passwords of an earlier start are kept."""
    return {
        "secure": True,
        "kafka_config": str(layout.folder / "client.properties"),
        "kafka_password": old.get("kafka_password") or secrets.token_urlsafe(24),
        "broker_password": old.get("broker_password") or secrets.token_urlsafe(24),
        "zookeeper_config": str(layout.folder / "zookeeper.properties"),
        "zookeeper_password": old.get("zookeeper_password") or secrets.token_urlsafe(24),
    }


def zookeeper_security(folder: Path, credentials: ClusterFacts) -> ZooKeeperSecurity | None:
    """TLS and SASL settings of the local ZooKeeper; None for an unsecured cluster."""
    if not credentials.get("secure"):
        return None
    pki = folder / "pki"
    return ZooKeeperSecurity(pki / "zookeeper.pem", pki / "ca.pem", OPERATOR, credentials["zookeeper_password"])


def write_credentials(layout: Layout, credentials: ClusterFacts) -> dict[int, dict[str, object]]:
    """Write the certificates and the client files. Returns each broker's settings."""
    authority = Authority(layout.folder / "pki")
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _JAAS.format(OPERATOR, credentials["kafka_password"]),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.ca,
    }
    authority.issue("zookeeper")
    zookeeper = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": authority.ca,
        "zookeeper.sasl.jaas.config": _JAAS.format(OPERATOR, credentials["zookeeper_password"]),
        "zookeeper.set.acl": "true",
    }
    for path, lines in ((credentials["kafka_config"], client), (credentials["zookeeper_config"], zookeeper)):
        write_private(Path(path), "".join(f"{k}={v}\n" for k, v in lines.items()))
    return {
        n: {
            "listeners": f"SASL_SSL://127.0.0.1:{layout.broker_port(n)}",
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.jaas.config": _JAAS.format(BROKER, credentials["broker_password"]),
            "ssl.keystore.location": authority.issue(f"broker-{n}"),
            "ssl.truststore.location": authority.ca,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{BROKER};User:{OPERATOR}",
            **zookeeper,
        }
        for n in range(1, layout.brokers + 1)
    }


def ensure_users(credentials: ClusterFacts) -> None:
    """Write the credentials of both users as rows. Brokers read them from the metadata log, so no Kafka connection is needed."""
    from controlplane.models import AccessEntry
    from controlplane.services.access import password_fits, set_password

    for user, password in ((BROKER, credentials["broker_password"]), (OPERATOR, credentials["kafka_password"])):
        row = AccessEntry.objects.filter(kind="scram", key=f"{MECHANISM}:{user}").first()
        if row is None or not password_fits(row, password):
            set_password(user, password, mechanism=MECHANISM, actor="up")
