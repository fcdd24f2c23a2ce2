"""The form of a scenario: the queues there are, and what the application does with them, and when.

``docs/reference/ironmq.md`` describes it. Fields of the API have the API's names, ranges and units (seconds);
whether they are in range is IronMQ's to say, in its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from dlx.nearest_names import nearest
from simulator.scenario.scenario_errors import ScenarioError, convert_part
from simulator.systems.ironmq.fields import QUEUE, unknown_fields
from simulator.systems.ironmq.settings import FIELDS

_SECONDS_MAX = 10 * 365 * 86_400
Seconds = Annotated[float, Meta(ge=0, le=_SECONDS_MAX)]
Name = Annotated[str, Meta(min_length=1)]


def _names(shape: Any) -> dict[str, Any]:
    """Return what the schema of a scenario says of settings: their names. IronMQ itself judges their values."""
    if isinstance(shape, list):
        return {"items": _names(shape[0])}
    if shape is None:
        return {}
    return {"properties": {name: _names(each) for name, each in shape.items()}, "additionalProperties": False}


_SETTINGS = {name: QUEUE["queue"][name] for name in FIELDS}
_NAMES = {"type": "object", **_names(_SETTINGS)}
Settings = Annotated[dict[str, Any], Meta(extra_json_schema=_NAMES)]


class Step(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="do"):
    """One thing the application does with one queue.

    Attributes:
        at_s: when, seconds from the start; thousandths count.
        queue: with which queue.
        times, every_s: how often, and with which time between.
    """

    at_s: Seconds
    queue: Name
    times: Annotated[int, Meta(ge=1, le=100_000)] = 1
    every_s: Seconds = 0


class Create(Step, tag="create"):
    """Create the queue, or update it (PUT)."""

    settings: Settings = {}


class Update(Step, tag="update"):
    """Update the queue (PATCH)."""

    settings: Settings = {}


class Remove(Step, tag="remove"):
    """Delete the queue."""


class NewMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A message that is posted. ``name`` is what the scenario and its trace call it."""

    name: Name
    body: str = ""
    delay: int = 0


class Post(Step, tag="post"):
    """Put messages on the queue."""

    messages: Annotated[list[NewMessage], Meta(min_length=1)]


class Reserve(Step, tag="reserve"):
    """Reserve messages."""

    n: int | None = None
    timeout: int | None = None
    delete: bool = False


class Peek(Step, tag="peek"):
    """Look at the next messages."""

    n: int | None = None


class Clear(Step, tag="clear"):
    """Delete all messages."""


class Get(Step, tag="get"):
    """Look at one message."""

    message: Name


# Which of a message's reservations is meant: its last one, its first (1), second (2) ..., or none.
Which = Literal["last", "none"] | Annotated[int, Meta(ge=1)]


class Touch(Step, tag="touch"):
    """Extend a reservation."""

    message: Name
    reservation: Which = "last"
    timeout: int | None = None


class Release(Step, tag="release"):
    """Give up a reservation."""

    message: Name
    reservation: Which = "last"
    delay: int | None = None


class Delete(Step, tag="delete"):
    """Delete one message."""

    message: Name
    reservation: Which = "last"


class PushStatuses(Step, tag="push_statuses"):
    """Look at what the subscribers of a push queue answered to a message."""

    message: Name


class OutOfReach(Step, tag="out_of_reach"):
    """Take all replicas of the queue offline."""


class InReach(Step, tag="in_reach"):
    """Bring the replicas back."""


AnyStep = (
    Create
    | Update
    | Remove
    | Post
    | Reserve
    | Peek
    | Clear
    | Get
    | PushStatuses
    | Touch
    | Release
    | Delete
    | OutOfReach
    | InReach
)


class Scenario(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario.

    Attributes:
        queues: the settings of the queues there are from the start, by name.
        steps: what the application does; steps of one time in the order written.
        endpoints: what those of subscribers answer: statuses of HTTP by URL, in order; 0 for no connection.
        project: the project's id.
        seed: of the reservation ids.
        end_s: when to look at what is left; by default at the last step.
    """

    queues: dict[Name, Annotated[Any, Meta(extra_json_schema=_NAMES)]] = {}
    steps: list[AnyStep] = []
    endpoints: dict[Name, int | list[int]] = {}
    project: Name = "project"
    seed: int = 0
    end_s: Seconds = 0


_EXPECTED = {"reservation": "expected 'last', 'none' or a number from 1"}


def read(document: Mapping[str, Any]) -> Scenario:
    """Read a scenario from a document. Raises ``ScenarioError``."""
    scenario = convert_part(document, Scenario, expected=_EXPECTED)
    for name, settings in scenario.queues.items():
        if not isinstance(settings, Mapping):
            raise ScenarioError(f"queues.{name}", "expected an object with the queue's settings; {} for the defaults")
        _check_names(settings, f"queues.{name}")
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Create | Update):
            _check_names(step.settings, f"steps[{index}].settings")
    return scenario


def _check_names(settings: Mapping[str, Any], where: str) -> None:
    """Refuse a setting that IronMQ would ignore, also one inside another: in a scenario it is a misprint."""
    for path, name, known in unknown_fields(settings, _SETTINGS, where):
        near = nearest(name, known)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ScenarioError(path, f"a queue does not have this setting; expected one of {', '.join(known)}{meant}")
