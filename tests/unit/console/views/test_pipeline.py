"""The pages of archives: start, stop, and the records that are written."""

from __future__ import annotations

from django.test import Client

from controlplane.models import ArchiveBatch, ArchiveJob
from tests.unit.controlplane.world import World


def test_an_archive_of_known_topics_is_requested(world: World, operator: Client) -> None:
    world.topic("flights", (1, 2))
    wrong = operator.post("/pipeline/new/", {"topics": "none"})
    assert wrong.status_code == 400 and "none" in wrong.content.decode() and not ArchiveJob.objects.exists()
    assert "flights</textarea>" in operator.get("/pipeline/new/?topic=flights").content.decode()
    page = operator.post("/pipeline/new/", {"topics": "flights"}, follow=True)
    job = ArchiveJob.objects.get()
    assert page.redirect_chain == [(f"/pipeline/{job.pk}/", 302)] and job.topics == ["flights"]
    assert f"Archive {job.pk} requested." in page.content.decode()


def test_the_page_of_an_archive_has_its_batches_and_an_operation_needs_a_post(world: World, operator: Client) -> None:
    job = ArchiveJob.objects.create(topics=["flights"], state="running", actor="alice", folder="/lake/1")
    ArchiveBatch.objects.create(
        job=job, batch=4, topic="flights", partition=0, first_offset=0, next_offset=1234, rows=1234
    )
    assert "1,234" in operator.get(f"/pipeline/{job.pk}/").content.decode()
    assert operator.get(f"/pipeline/{job.pk}/stop/").status_code == 405
    assert operator.post(f"/pipeline/{job.pk}/explode/").status_code == operator.get("/pipeline/99/").status_code == 404
    page = operator.post(f"/pipeline/{job.pk}/stop/", follow=True).content.decode()
    assert f"Archive {job.pk} stops after its current batch." in page
    job.refresh_from_db()
    assert job.state == "stopping"
