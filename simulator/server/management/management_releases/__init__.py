"""The differences between RabbitMQ releases in the management API, by subject.

The same two rules as for ``dlx.releases``: every difference that this package knows
stands here, and code asks for the behaviour (``api.user_limits``), never for a
version. ``dlx.releases`` has the differences of the broker itself.

"live" means observed on servers of 3.8.9, 3.10.8, 4.0.5 and 4.3.6 with the plugins
management and tracing; the rules of 3.13 were read from the source of 3.13.7.
"""

from __future__ import annotations

from functools import cache

import msgspec

from dlx.releases.rows import rows_of, subjects_of, with_behaviours
from simulator.server.management.management_releases.access import Access
from simulator.server.management.management_releases.definitions import Definitions
from simulator.server.management.management_releases.fields import Fields
from simulator.server.management.management_releases.requests import Requests

__all__ = ["TABLE", "Api", "api_of"]


@with_behaviours
class Api(Access, Requests, Fields, Definitions, msgspec.Struct, frozen=True, kw_only=True):
    """How one release's management API behaves; ``TABLE`` says what each field means and how it is known."""

    version: str


TABLE = rows_of(*subjects_of(Api))


@cache
def api_of(version: str) -> Api:
    """Return the management API of a full version such as ``4.3.6``."""
    return Api(version=version, **{row.name: row.value_in(version) for row in TABLE})
