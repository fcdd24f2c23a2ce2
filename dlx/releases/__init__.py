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

from dlx.releases.rows import Row as Row
from dlx.releases.table import MESSAGE_ROWS as MESSAGE_ROWS
from dlx.releases.table import SUBJECTS as SUBJECTS
from dlx.releases.table import TABLE as TABLE
from dlx.releases.table import Release as Release
from dlx.releases.table import all_releases as all_releases
from dlx.releases.table import differing_behaviours as differing_behaviours
from dlx.releases.table import is_release as is_release
from dlx.releases.table import release as release
from dlx.releases.table import release_and_remark as release_and_remark
from dlx.releases.table import rules_of as rules_of
from dlx.releases.table import stand_in_remark as stand_in_remark
from dlx.releases.table import with_behaviour as with_behaviour
from dlx.releases.versions import DEFAULT as DEFAULT
from dlx.releases.versions import RELEASES as RELEASES
from dlx.releases.versions import VERSIONS as VERSIONS
from dlx.releases.versions import ReleaseName as ReleaseName
from dlx.releases.versions import StandInRelease as StandInRelease
from dlx.releases.versions import UnknownReleaseError as UnknownReleaseError
from dlx.releases.versions import known_release as known_release
from dlx.releases.versions import neighbours as neighbours
