"""The earlier sample that a sample is compared with."""

from __future__ import annotations

from controlplane.monitoring.sample_window import SampleWindow


def test_the_earlier_sample_is_one_to_two_windows_old() -> None:
    window = SampleWindow(5_000, 0, "0")
    assert window.compare(0, "again") is None, "the time has not advanced"
    found = {at: window.compare(at, str(at)) for at in range(3_000, 31_000, 3_000)}
    assert found[3_000] == (3.0, "0") and found[6_000] == (6.0, "0")
    assert found[9_000] == (9.0, "0") and found[12_000] == (6.0, "6000") and found[27_000] == (9.0, "18000")
    assert all(5.0 <= seconds <= 10.0 for at, (seconds, _) in list(found.items())[1:])  # type: ignore[misc]
