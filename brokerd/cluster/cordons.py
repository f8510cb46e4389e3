"""Brokers that an operator has set aside: two settings of a broker that the controller obeys. Pure.

Laws: a cordoned broker gets no new replica and keeps what it has; one that is not eligible gives leadership away wherever another replica is in
sync, and keeps it where none is. Both stand in the metadata log as settings of that broker (`BrokerConfigChanged`), so that they outlive every
process. Called by the controller's core, the brokers' tables of settings, the control plane. Must not come in: who asked, and why.
"""

from __future__ import annotations

from collections.abc import Mapping

CORDONED = "cordoned.log.dirs"
"""Kafka's own name (KIP-1066); here all directories of a broker or none: `*` or nothing."""
LEADERSHIP = "leader.eligible"
"""false: it leads only what nobody else can. Kafka has no such setting."""
SET_ASIDE = (CORDONED, LEADERSHIP)
ALL_DIRECTORIES = "*"


def cordoned(configs: Mapping[str, str]) -> bool:
    """No new replica may be placed on a broker with these settings."""
    return configs.get(CORDONED) == ALL_DIRECTORIES


def shunned(configs: Mapping[str, str]) -> bool:
    """A broker with these settings leads only what nobody else can."""
    return configs.get(LEADERSHIP) == "false"
