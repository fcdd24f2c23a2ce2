"""The differences between RabbitMQ releases by subject, each with its date and its evidence.

This package has two rules. Every difference between releases that the rules and the
broker know stands here (the server has rows of the same kind for what only its clients
see: ``management_releases`` and ``server_properties``); and the rules ask for a behaviour
(``release.client_deaths_continued``), never for a version. To add a difference, add a
row to its subject (``rows.py`` shows how); to add a release, add its version to
``versions.py``.

The evidence of a row names the servers or sources that show it. "live" means observed on real
servers of the versions in ``VERSIONS``. A row says which release was read from source alone, and
for which release nothing decides (``undecided``).
"""

from __future__ import annotations

from dlx.releases.rows import Row
from dlx.releases.table import (
    MESSAGE_ROWS,
    SUBJECTS,
    TABLE,
    Release,
    all_releases,
    differing_behaviours,
    is_release,
    release,
    release_and_remark,
    rules_of,
    stand_in_remark,
    with_behaviour,
)
from dlx.releases.versions import (
    DEFAULT,
    RELEASES,
    VERSIONS,
    ReleaseName,
    StandInRelease,
    UnknownReleaseError,
    known_release,
    neighbours,
)

__all__ = [
    "DEFAULT",
    "MESSAGE_ROWS",
    "RELEASES",
    "SUBJECTS",
    "TABLE",
    "VERSIONS",
    "Release",
    "ReleaseName",
    "Row",
    "StandInRelease",
    "UnknownReleaseError",
    "all_releases",
    "differing_behaviours",
    "is_release",
    "known_release",
    "neighbours",
    "release",
    "release_and_remark",
    "rules_of",
    "stand_in_remark",
    "with_behaviour",
]
