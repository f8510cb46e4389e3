"""Settings of the catalogue."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir_common.lake_catalog import LakeSettings


def test_a_folder_has_an_sqlite_catalogue(tmp_path: Path) -> None:
    settings = LakeSettings.of_environment(tmp_path, {})
    assert settings.properties() == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}",
    }
    assert settings.open() is settings.open()


def test_the_environment_names_postgresql_and_s3(tmp_path: Path) -> None:
    settings = LakeSettings.of_environment(
        tmp_path,
        {
            "WEIR_LAKE_CATALOG": "postgresql://u:secret@db/lake",
            "WEIR_LAKE_WAREHOUSE": "s3://bucket/lake",
            "WEIR_LAKE_OPTIONS": "s3.endpoint=http://127.0.0.1:9000, s3.region=x",
        },
    )
    assert settings.properties() == {
        "type": "sql",
        "uri": "postgresql+psycopg://u:secret@db/lake",
        "warehouse": "s3://bucket/lake",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "x",
    }
    assert "secret" not in repr(settings)


def test_a_rest_catalogue_has_its_url() -> None:
    assert LakeSettings("https://catalogue", "s3://b").properties()["type"] == "rest"


def test_another_url_is_rejected() -> None:
    with pytest.raises(ValueError, match="mysql"):
        LakeSettings("mysql://x", "/lake").properties()
    with pytest.raises(ValueError, match="name=value"):
        LakeSettings.of_environment(Path("/x"), {"WEIR_LAKE_OPTIONS": "x"})
