"""UpdateFeatures and the features of ApiVersions at a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis import features as features_api
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.features import SAFE_DOWNGRADE, SHARE_VERSION, STREAMS_VERSION
from brokerd.cluster.image import Image
from brokerd.cluster.levels import FEATURE, LEVEL_MAX
from brokerd.cluster.metadata import RequestCompleted
from brokerd.config.broker import BrokerConfig
from brokerd.wire.messages import ApiVersionsResponse, UpdateFeaturesRequest
from tests.unit.cluster.test_features import TV
from tests.unit.stored_requests import recorder


@pytest.mark.parametrize(
    ("finalised", "in_file", "offered"),
    [(None, "0", 0), (None, "2", 2), (2, "0", 2), (1, "2", 1), (0, "2", 0), (None, "9", 2)],
)
def test_a_finalised_level_overrides_the_settings_file(finalised: int | None, in_file: str, offered: int) -> None:
    image = Image(seq=9, metadata_version=LEVEL_MAX, features={} if finalised is None else {TV: finalised})
    config = BrokerConfig.parse({"broker.id": "1", "log.dirs": "/tmp/x", TV: in_file})
    response = ApiVersionsResponse()
    features_api.offer(response, image, config)
    assert {f.name: (f.min_version, f.max_version) for f in response.supported_features} == {
        FEATURE: (1, LEVEL_MAX),
        TV: (0, 2),
        SHARE_VERSION: (1, 1),
        STREAMS_VERSION: (1, 1),
    }
    finals = {f.name: f.max_version_level for f in response.finalized_features}
    assert finals.get(TV, 0) == offered
    assert (finals[FEATURE], finals[SHARE_VERSION], finals[STREAMS_VERSION]) == (LEVEL_MAX, 1, 1)
    assert response.finalized_features_epoch == 9


@pytest.mark.parametrize(("version", "kind"), [(0, SAFE_DOWNGRADE), (1, 3), (2, 3)])
def test_each_request_version_has_its_own_format(version: int, kind: int) -> None:
    requested: list[Any] = []
    replies: list[Any] = []
    update = UpdateFeaturesRequest.FeatureUpdateKey(TV, 1, allow_downgrade=True, upgrade_type=3)
    request = SimpleNamespace(
        body=UpdateFeaturesRequest(5_000, [update]),
        header=SimpleNamespace(api_version=version),
        principal="User:ann",
        reply=replies.append,
    )
    features_api.FeaturesApi(lambda: Image(), recorder(requested), ALLOW_ALL).update(request)  # type: ignore[arg-type]
    _, payload, _, done = requested[0]
    assert payload["topics"] == [{"name": TV, "level": 1, "upgrade_type": kind}]
    done(RequestCompleted("r", 0, None, {"results": [{"name": TV, "error": 95, "message": "no"}]}))
    (response,) = replies
    assert [(r.feature, r.error_code, r.error_message) for r in response.results] == [(TV, 95, "no")]
    assert (response.error_code, response.error_message) == ((95, "no") if version >= 2 else (0, None))
