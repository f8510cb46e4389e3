"""Private requests of the control plane in tagged fields of Fetch: half messages, delayed messages, look-ups by key.

Does not contain: the responses themselves (`half_messages`, `delayed_messages`, `key_lookups`), authorization (`fetch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerd.apis.delayed_messages import DelayedMessagesServer
from brokerd.apis.fetch_lookup import Topics
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.half_messages import HalfMessagesServer
from brokerd.apis.key_lookups import KeyLookupServer, PartitionKeyLookup
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.half_front import HalfFront
from brokerd.delivery.led_fronts import LedFronts
from brokerd.net.request import Request
from brokerd.replication.remote_key_lookups import RemoteKeyLookups
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.server.background_work import BackgroundWork
from brokerd.wire.messages import FetchRequest


class PrivateFetches:
    def __init__(
        self,
        replica_manager: ReplicaManager,
        background_work: BackgroundWork,
        mono_ms: Callable[[], int],
        half_fronts: LedFronts[HalfFront],
        delayed_fronts: LedFronts[DelayedFront],
        remote_key_lookups: RemoteKeyLookups | None,
    ) -> None:
        self._background_work = background_work
        self._key_lookups = KeyLookupServer(replica_manager, mono_ms, remote_key_lookups)
        self._half_messages = HalfMessagesServer(half_fronts)
        self._delayed_messages = DelayedMessagesServer(delayed_fronts, mono_ms)

    def respond(self, request: Request, partition_requests: Iterable[PartitionRequest], unauthorized: Topics) -> bool:
        """Returns False if the request fetches records."""
        body: FetchRequest = request.body
        for topic in body.topics:
            for requested in topic.partitions:
                if requested.half_messages:
                    request.reply(self._half_messages.respond(partition_requests, unauthorized))
                elif requested.key_lookup:
                    self._look_up_keys(request, partition_requests, unauthorized)
                elif requested.delayed_messages:
                    steps = self._delayed_messages.respond(partition_requests, unauthorized)
                    self._background_work.start(request, steps, request.reply)
                else:
                    continue
                return True
        return False

    def _look_up_keys(
        self, request: Request, partition_requests: Iterable[PartitionRequest], unauthorized: Topics
    ) -> None:
        body: FetchRequest = request.body

        def on_searched(lookups: list[PartitionKeyLookup]) -> None:
            self._key_lookups.finish(body, lookups, unauthorized, request.reply)

        self._background_work.start(request, self._key_lookups.search(body, partition_requests), on_searched)
