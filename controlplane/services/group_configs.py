"""Configs of a group: set and remove. `access` sends them to the brokers.

Invariant: a config that a broker would reject is rejected here, because a broker checks the change first: only brokers know the bounds in their settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.db import transaction

from brokerd.cluster.metadata import GROUP
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.clients.group_configs import check_change
from controlplane.domain.audit_operation import AuditOperation
from controlplane.selectors.group_configs import desired_group_configs
from controlplane.selectors.transactions import living_brokers
from controlplane.services import access
from controlplane.services.broker_configs import ConfigChange, check_reviewed
from controlplane.services.common import Rejected, audited
from weir_common.phrases import sentence


def preview_group_change(group_id: str, configs: Mapping[str, str | None]) -> list[ConfigChange]:
    """The effect of this change. Raises Rejected. A value None removes the value of the group: the default applies."""
    if not configs:
        raise Rejected("Name at least one config.", "configs")
    before = desired_group_configs(group_id)
    for name, value in configs.items():
        if value is None and name not in before:
            raise Rejected(sentence("The group has no value of {name}.", name=name), f"configs.{name}")
        if value is not None and before.get(name) == value:
            raise Rejected(sentence("{name} has this value already.", name=name), f"configs.{name}")
    _check(group_id, configs)
    return [ConfigChange(name, before.get(name), value) for name, value in configs.items()]


def _check(group_id: str, configs: Mapping[str, str | None]) -> None:
    """Let one broker check the change. The next one replaces a broker that does not respond."""
    problem = "no broker is alive"
    for address in living_brokers().values():
        connection = KafkaConnection(address.host, address.port)
        try:
            check_change(connection, group_id, configs)
        except NoResponse as e:
            problem = str(e)
        except Declined as e:
            raise Rejected(sentence("{problem}.", problem=str(e).rstrip(".")), "configs") from e
        else:
            return
        finally:
            connection.close()
    raise Rejected(sentence("No broker checked the change: {problem}.", problem=problem), "configs")


@audited(AuditOperation.GROUP_CONFIGS, "{group_id}", after=lambda given: dict(given["configs"]))
def alter_group_configs(
    group_id: str,
    configs: Mapping[str, str | None],
    *,
    actor: str,
    comment: str = "",
    reviewed: Mapping[str, str | None] | None = None,
) -> None:
    """Set and remove configs of a group. `reviewed`: the values that the operator saw; Rejected if one has changed since."""
    access.require_imported()
    changes = preview_group_change(group_id, configs)
    check_reviewed(changes, reviewed)
    with transaction.atomic():
        access.lock(GROUP, group_id)
        after = desired_group_configs(group_id)
        # A broker has checked the change to the previous values, outside of the transaction.
        checked = {c.name: c.now for c in changes}
        check_reviewed([replace(c, now=after.get(c.name)) for c in changes], checked)
        for name, value in configs.items():
            if value is None:
                after.pop(name, None)
            else:
                after[name] = value
        access.put(GROUP, group_id, after or None, actor=actor, comment=comment, verb=AuditOperation.GROUP_CONFIGS)
