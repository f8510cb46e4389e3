"""UpdateFeatures (KIP-584), and the features of ApiVersions.

Invariant: the controller applies all changes of a request or none of them. Until `transaction.version` is finalized in the metadata log, a broker offers
the value of its configuration.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.apis.forwarding import Forwarding, Results, SendToController
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.features import FEATURES, FIXED, SAFE_DOWNGRADE, TRANSACTION_VERSION, UPGRADE, supported_features
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE
from brokerd.cluster.requests import FeatureUpdate, UpdateFeatures
from brokerd.config.broker import BrokerConfig
from brokerd.net.request import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import ApiVersionsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse


class FeaturesApi:
    def __init__(self, image: Callable[[], Image], send_to_controller: SendToController, auth: AuthHelper) -> None:
        self._image, self._forward, self._auth = image, Forwarding(send_to_controller), auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.UPDATE_FEATURES: self.update}

    def update(self, request: Request) -> None:
        body: UpdateFeaturesRequest = request.body
        if not self._auth.authorize(request, Operation.ALTER, Resource.CLUSTER):
            request.reply(UpdateFeaturesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
            return
        version = request.header.api_version
        items = []
        for u in {u.feature: u for u in body.feature_updates}.values():
            kind = u.upgrade_type if version >= 1 else SAFE_DOWNGRADE if u.allow_downgrade else UPGRADE
            items.append(FeatureUpdate(u.feature, u.max_version_level, kind))

        def on_results(results: Results) -> None:
            result = UpdateFeaturesResponse.UpdatableFeatureResult
            response = UpdateFeaturesResponse(
                results=[result(feature=r.name or "", error_code=r.error, error_message=r.message) for r in results]
            )
            failed = [r for r in results if r.error]
            if failed and version >= 2:  # these versions have one result for all features
                response.error_code = failed[0].error
                response.error_message = "; ".join(str(r.message) for r in failed)
            request.reply(response)

        payload = UpdateFeatures(principal=request.principal, items=tuple(items), validate_only=body.validate_only)
        self._forward(payload, body.timeout_ms, on_results)


def offer(response: ApiVersionsResponse, image: Image, config: BrokerConfig) -> None:
    """Add the supported and the finalized features to an ApiVersions response. Clients use transactions V2 (KIP-890) if `transaction.version` is 2."""
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in supported_features().items()
    ]
    in_force = dict(FIXED)
    if image.metadata_version > 0:
        in_force[FEATURE] = image.metadata_version
    most = FEATURES[TRANSACTION_VERSION][1]
    in_force[TRANSACTION_VERSION] = image.features.get(TRANSACTION_VERSION, min(config[TRANSACTION_VERSION], most))
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in in_force.items()
        if level > 0
    ]
    if response.finalized_features:
        response.finalized_features_epoch = image.seq
