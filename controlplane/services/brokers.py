"""An operator's acts upon a broker: cordon and uncordon, leaders off and back, drain. Laws: what is set stands in the metadata log as settings
of that broker, and the controller obeys it; each act leaves a change row with the value before; what a drain moves, it moves by an ordinary move.

Called by the API, the console and rolling restarts. Must not come in: where replicas go (`plan`), how a restart goes on (`restarting`).
"""

from __future__ import annotations

from django.db import transaction

from brokerd.cluster.cordons import ALL_DIRECTORIES, CORDONED, LEADERSHIP
from controlplane.models import Broker, Move
from controlplane.services import access, moves
from controlplane.services.common import Refused, record_refusal


def cordon(broker_id: int, *, who: str, why: str = "") -> Broker:
    """No new replica comes to it; it keeps and serves what it has. Raises Refused where nobody else would be left to take one."""
    row = _row(broker_id, "broker.cordon", who, why)
    others = [b for b in Broker.objects.exclude(pk=broker_id) if b.alive and b.configs.get(CORDONED) != ALL_DIRECTORIES]
    if not others:
        refused = Refused(
            f"Broker {broker_id} is the last living one that is not cordoned: new topics could go nowhere."
        )
        record_refusal(who, "broker.cordon", "broker", str(broker_id), refused, why=why)
        raise refused
    return _set(row, CORDONED, ALL_DIRECTORIES, "broker.cordon", who, why)


def uncordon(broker_id: int, *, who: str, why: str = "") -> Broker:
    return _set(_row(broker_id, "broker.uncordon", who, why), CORDONED, None, "broker.uncordon", who, why)


def leaders_off(broker_id: int, *, who: str, why: str = "") -> Broker:
    """It leads only what no other replica in sync can lead, until `leaders_back`."""
    return _set(_row(broker_id, "broker.leaders_off", who, why), LEADERSHIP, "false", "broker.leaders_off", who, why)


def leaders_back(broker_id: int, *, who: str, why: str = "") -> Broker:
    """It may lead again; the controller returns what prefers it within seconds."""
    return _set(_row(broker_id, "broker.leaders_back", who, why), LEADERSHIP, None, "broker.leaders_back", who, why)


def drain(
    broker_id: int, *, who: str, why: str = "", throttle_bytes_per_s: int | None = None, parts_in_flight_max: int = 8
) -> Move | None:
    """Cordon it, take leadership off it, and move every replica off it: a move that runs at once. None: it holds none any more. Raises Refused
    before anything is changed where a replica can go nowhere."""
    _row(broker_id, "broker.drain", who, why)
    try:
        with transaction.atomic():
            cordon(broker_id, who=who, why=why)
            leaders_off(broker_id, who=who, why=why)
            if not Broker.objects.get(pk=broker_id).replicas:
                return None
            caps = {"throttle_bytes_per_s": throttle_bytes_per_s, "parts_in_flight_max": parts_in_flight_max}
            move = moves.plan_move({"kind": "drain", "broker": broker_id}, who=who, why=why, **caps)  # type: ignore[arg-type]
            return moves.start_move(move.pk, who=who, why=why)
    except Refused as refused:
        record_refusal(who, "broker.drain", "broker", str(broker_id), refused, why=why)
        raise


def _row(broker_id: int, verb: str, who: str, why: str) -> Broker:
    row = Broker.objects.filter(pk=broker_id).first()
    if row is None:
        refused = Refused(f"There is no broker {broker_id}.", "broker_id")
        record_refusal(who, verb, "broker", str(broker_id), refused, why=why)
        raise refused
    return row


def _set(row: Broker, name: str, value: str | None, verb: str, who: str, why: str) -> Broker:
    act = {"op": "delete", "name": name} if value is None else {"op": "set", "name": name, "value": value}
    with transaction.atomic():
        access.put_settings(
            str(row.broker_id), [act], row.configs, who=who, above=row.config_generation, why=why, verb=verb
        )
    return row
