"""The release table is complete, and its rows are what tells releases apart."""

from __future__ import annotations

import pytest

from dlx.releases import (
    DEFAULT,
    RELEASES,
    TABLE,
    VERSIONS,
    Release,
    UnknownReleaseError,
    differing_behaviours,
    release,
)


def test_every_behaviour_has_a_row_and_every_row_a_behaviour():
    assert [row.name for row in TABLE] == [
        name for name in Release.__struct_fields__ if name not in ("name", "version")
    ]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_says_what_it_means_and_how_it_is_known(row):
    assert len(row.values) == len(RELEASES)
    assert len(set(map(str, row.values))) > 1, "a row is a difference"
    assert row.meaning.endswith((".", ")"))
    assert row.evidence


def test_a_full_version_finds_its_release():
    assert release("4.0.5") == release("4.0")
    assert release().name == DEFAULT == "4.3"
    assert {release(name).version for name in RELEASES} == set(VERSIONS.values())


def test_an_unknown_release_names_the_known_ones():
    with pytest.raises(UnknownReleaseError, match=r"no release '2\.8': known are 3\.8, 3\.10, 3\.13, 4\.0, 4\.3"):
        release("2.8")


def test_releases_differ_in_table_order():
    names = [row.name for row in differing_behaviours(release("4.0"), release("4.3"))]
    assert "client_deaths_continued" not in names
    assert "quorum_acquired_count_header" in names
    assert names == [row.name for row in TABLE if row.name in names]
