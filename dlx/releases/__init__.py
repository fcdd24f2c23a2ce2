"""What differs between RabbitMQ releases: what changed when, by subject, and how that is known.

This package has two rules. Every difference between releases that the rules and the
broker know stands here (the server has rows of the same kind for what only its clients
see: ``management_releases`` and ``server_properties``); and the rules ask for a behaviour
(``release.client_deaths_continued``), never for a version. To add a difference, add a
row to its subject (``rows.py`` shows how); to add a release, add its version to
``versions.py``.

The evidence of a row names what it was seen on. "live" means observed on real
servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6. The rules of 3.13 are those of 3.13.7 and
were read from its source; no server of that release has judged them.
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
]
