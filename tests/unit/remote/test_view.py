"""The remote records as fetches and local retention see them."""

from __future__ import annotations

from brokerd.remote.view import FollowerView, RemoteView
from tests.unit.remote.test_lineage import chain_of, finished_segment, local


def view(start: int, end: int, log_start: int = 0, kind: type[RemoteView] = RemoteView) -> RemoteView:
    out = kind()
    out.loaded, out.log_start = True, log_start
    out.chain = chain_of([finished_segment(start, end)], local(100, (1, end)).end_offset_for)
    return out


def test_before_the_remote_log_is_loaded_nothing_is_out_of_range_and_nothing_is_deleted() -> None:
    empty = RemoteView()
    assert empty.reaches_below(20) and not empty.reaches_below(0)
    assert empty.copied_end(20) == 20


def test_remote_records_reach_down_to_the_chain_or_the_log_start() -> None:
    assert view(5, 30).start_offset(20) == 5 and view(5, 30).reaches_below(20)
    assert view(5, 30, log_start=12).start_offset(20) == 12
    assert view(5, 30, log_start=25).start_offset(20) == 25 and not view(5, 30, log_start=25).reaches_below(20)


def test_remote_records_that_do_not_reach_the_local_log_are_not_served() -> None:
    assert not view(5, 10).reaches_below(20) and view(5, 10).copied_end(20) == 20
    assert not view(40, 50).reaches_below(20) and view(40, 50).copied_end(20) == 20


def test_only_copied_records_may_be_deleted_locally() -> None:
    assert view(5, 30).copied_end(20) == 30


def test_a_follower_treats_records_that_its_leader_may_have_as_available() -> None:
    assert FollowerView().reaches_below(20) and not FollowerView().reaches_below(0)
    late = view(5, 10, kind=FollowerView)
    assert late.reaches_below(20) and late.start_offset(20) == 0, "the copy up to 20 is finished, but not read yet"
    assert view(5, 10, log_start=7, kind=FollowerView).start_offset(20) == 7
    assert not view(5, 10, log_start=20, kind=FollowerView).reaches_below(20), "deleted in both tiers"


def test_a_follower_whose_remote_log_reaches_the_local_log_has_the_leaders_start_offset() -> None:
    known = view(5, 30, kind=FollowerView)
    assert known.joins(20) and known.reaches_below(20) and known.start_offset(20) == 5
    assert view(5, 30, log_start=12, kind=FollowerView).start_offset(20) == 12
