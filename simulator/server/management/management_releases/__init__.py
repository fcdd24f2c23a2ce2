"""The differences between RabbitMQ releases in the management API, by subject.

The same two rules as for ``dlx.releases``: every difference that this package knows
stands here, and code asks for the behaviour (``api.brief_lists``), never for a
version. ``dlx.releases`` has the differences of the broker itself.

"live" means that servers of all ten releases answered calls that decide it
(``tests/management/recorded``), or were asked directly; they had the plugins management
and tracing. "four live" means observed on servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6: the
other releases were read from the source of 3.9.29, 3.11.28, 3.12.14, 3.13.7, 4.1.8 and
4.2.9, in the files that the evidence names. ``undecided`` names releases for which nothing decides.
"""

from __future__ import annotations

from functools import cache

import msgspec

from dlx.releases import Release
from dlx.releases.rows import rows_of, subjects_of, with_behaviours
from simulator.server.management.management_releases.access import AccessRows
from simulator.server.management.management_releases.definitions import DefinitionCallRows
from simulator.server.management.management_releases.deprecations import DeprecatedFeatureRows
from simulator.server.management.management_releases.fields import FieldRows
from simulator.server.management.management_releases.limits import LimitCallRows
from simulator.server.management.management_releases.requests import RequestRows

__all__ = ["TABLE", "Api", "api_of"]


@with_behaviours
class Api(
    AccessRows,
    RequestRows,
    FieldRows,
    DefinitionCallRows,
    LimitCallRows,
    DeprecatedFeatureRows,
    msgspec.Struct,
    frozen=True,
    kw_only=True,
):
    """How one release's management API behaves; ``TABLE`` says what each field means and how it is known.

    ``broker`` is how the release behaves apart from that.
    """

    broker: Release


TABLE = rows_of(*subjects_of(Api))


@cache
def api_of(release: Release) -> Api:
    """Return the management API of a release."""
    return Api(broker=release, **{row.name: row.value_in(release.version) for row in TABLE})
