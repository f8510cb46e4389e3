"""UpdateFeatures (KIP-584), and what ApiVersions says of features.

Law: the controller decides, all of a request or nothing of it. Until `transaction.version` is finalised in the metadata log a broker offers what its file says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from brokerd.apis.forwarding import Ask, Forwarding
from brokerd.cluster.features import FEATURES, SAFE_DOWNGRADE, TRANSACTION_VERSION, UPGRADE, supported
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE
from brokerd.cluster.znodes import UPDATE_FEATURES
from brokerd.config import BrokerConfig
from brokerd.dispatch import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import ApiVersionsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse


class FeaturesApi:
    def __init__(self, image: Callable[[], Image], ask: Ask) -> None:
        self._image, self._forward = image, Forwarding(ask)

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.UPDATE_FEATURES: self.update}

    def update(self, request: Request) -> None:
        body: UpdateFeaturesRequest = request.body
        version = request.header.api_version
        items = []
        for u in {u.feature: u for u in body.feature_updates}.values():
            kind = u.upgrade_type if version >= 1 else SAFE_DOWNGRADE if u.allow_downgrade else UPGRADE
            items.append({"name": u.feature, "level": u.max_version_level, "upgrade_type": kind})

        def answered(results: Sequence[Mapping[str, Any]]) -> None:
            result = UpdateFeaturesResponse.UpdatableFeatureResult
            answer = UpdateFeaturesResponse(
                results=[
                    result(feature=r["name"], error_code=r["error"], error_message=r.get("message")) for r in results
                ]
            )
            failed = [r for r in results if r["error"]]
            if failed and version >= 2:  # has one verdict for all
                answer.error_code = failed[0]["error"]
                answer.error_message = "; ".join(str(r.get("message")) for r in failed)
            request.reply(answer)

        self._forward(request.principal, UPDATE_FEATURES, items, body.validate_only, body.timeout_ms, answered)


def offer(answer: ApiVersionsResponse, image: Image, config: BrokerConfig) -> None:
    """What is served, and what is in force: clients use transactions of the second kind where that is finalised (KIP-890)."""
    answer.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in supported().items()
    ]
    in_force = {FEATURE: image.metadata_version} if image.metadata_version > 0 else {}
    most = FEATURES[TRANSACTION_VERSION][1]
    in_force[TRANSACTION_VERSION] = image.features.get(TRANSACTION_VERSION, min(config[TRANSACTION_VERSION], most))
    answer.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in in_force.items()
        if level > 0
    ]
    if answer.finalized_features:
        answer.finalized_features_epoch = image.seq
