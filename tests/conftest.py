"""Settings of Hypothesis for every test. A loaded machine may pause an example for seconds: time is the concern of pytest-timeout."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("weir", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weir")
