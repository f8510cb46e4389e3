"""TLS, SASL and ACLs of a cluster on several machines, by the table `[security]` of the inventory: settings and files with passwords.

Invariants: no port of a broker or of ZooKeeper accepts a client without TLS and authentication. Brokers and the control plane authenticate with the
certificate of their machine, so no password must exist before the first broker starts; other clients use SCRAM. Does not contain: keys and certificates
(`certificates`), files without a secret (`files`).
"""

from __future__ import annotations

from collections.abc import Mapping

from weir.deployment.inventory import CONTROL_PLANE, InvalidInventory, Inventory, Machine, MachineRole

ZOOKEEPER_PORT, INTERNAL_PORT, CLIENT_PORT = 2182, 9093, 9094
INTERNAL_LISTENER = "BROKERS"
"""Listener for brokers and the control plane, with certificates of both sides."""
MACHINE_PEM, CA_PEM = "/etc/weir/tls/machine.pem", "/etc/weir/tls/ca.pem"
KAFKA_CONFIG, ZOOKEEPER_CONFIG = "/etc/weir/client.properties", "/etc/weir/zookeeper.properties"
JAAS_PATH = "etc/weir/jaas.conf"
"""`zookeeper_server` reads it next to zoo.cfg."""
MECHANISM = "SCRAM-SHA-512"
ZOOKEEPER_USER = "weir"


def principal(machine: Machine) -> str:
    """The Kafka principal of the certificate of this machine."""
    return f"User:CN={machine.name}"


def broker_settings(inventory: Inventory) -> dict[str, str]:
    """Settings of every broker. {address} is that of the machine."""
    trusted = [m for m in inventory.machines if m.roles & (CONTROL_PLANE | {MachineRole.BROKER})]
    return {
        "listeners": f"{INTERNAL_LISTENER}://{{address}}:{INTERNAL_PORT},SASL_SSL://{{address}}:{CLIENT_PORT}",
        "listener.security.protocol.map": f"{INTERNAL_LISTENER}:SSL,SASL_SSL:SASL_SSL",
        "inter.broker.listener.name": INTERNAL_LISTENER,
        f"listener.name.{INTERNAL_LISTENER.lower()}.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": MECHANISM,
        "ssl.keystore.location": MACHINE_PEM,
        "ssl.truststore.location": CA_PEM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(principal(m) for m in trusted),
        **zookeeper_client(inventory),
    }


def zookeeper_client(inventory: Inventory) -> dict[str, str]:
    """Settings of the connection to ZooKeeper, of brokers and of the control plane."""
    password = inventory.security["zookeeper_password"]
    login = "org.apache.zookeeper.server.auth.DigestLoginModule required"
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": CA_PEM,
        "zookeeper.sasl.jaas.config": f'{login} username="{ZOOKEEPER_USER}" password="{password}";',
        "zookeeper.set.acl": "true",
    }


def zookeeper_server(machine: Machine) -> dict[str, str]:
    """Settings of the ZooKeeper server of this machine. An empty value removes the setting of the template."""
    return {
        "clientPort": "",
        "clientPortAddress": "",
        "secureClientPort": str(ZOOKEEPER_PORT),
        "secureClientPortAddress": machine.address,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.type": "PEM",
        "ssl.keyStore.location": MACHINE_PEM,
        "ssl.trustStore.type": "PEM",
        "ssl.trustStore.location": CA_PEM,
        "ssl.clientAuth": "none",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        "enforce.auth.enabled": "true",
        "enforce.auth.schemes": "sasl",
    }


def zookeeper_users(inventory: Inventory) -> str:
    """The JAAS file of a ZooKeeper server."""
    password = inventory.security["zookeeper_password"]
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return f'Server {{\n  {module} required user_{ZOOKEEPER_USER}="{password}";\n}};\n'


def kafka_client() -> dict[str, str]:
    """The file of the control plane for Kafka connections (`WEIR_KAFKA_CONFIG`)."""
    return {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": MACHINE_PEM,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": CA_PEM,
    }


def check_broker(settings: Mapping[str, str], machine: Machine) -> None:
    """Raises InvalidInventory if the settings of the inventory open a port without authentication or ACLs."""
    if "PLAINTEXT" in settings["listeners"] or "SASL_PLAINTEXT" in settings["listener.security.protocol.map"]:
        raise InvalidInventory(
            f"[broker] of machine {machine.name}: listeners has a listener without TLS, but the inventory has [security]: remove `listeners` from [broker], "
            f"then brokers listen on {INTERNAL_PORT} (brokers, control plane) and {CLIENT_PORT} (clients)"
        )
