"""The queues, and the settings under which the same traffic runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

JOBS, WAIT, BURST, DEAD, MAILS, PARKED = "jobs", "jobs.wait", "burst", "dead", "mails", "mails.parked"


@dataclass(frozen=True)
class Settings:
    """What a run changes: arguments of queues, and policies of the virtual host."""

    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)


QUEUES: dict[str, dict[str, Any]] = {
    JOBS: {"x-queue-type": "quorum", "x-dead-letter-exchange": "retry", "x-delivery-limit": 4},
    WAIT: {"x-dead-letter-exchange": "work", "x-dead-letter-routing-key": JOBS, "x-message-ttl": 150},
    BURST: {"x-dead-letter-exchange": "work", "x-dead-letter-routing-key": DEAD},
    MAILS: {"x-dead-letter-exchange": "work", "x-dead-letter-routing-key": PARKED},
    PARKED: {},
    DEAD: {},
}
EXCHANGES = {"work": "direct", "retry": "direct"}
BINDINGS = (
    ("work", JOBS, JOBS),
    ("work", BURST, BURST),
    ("work", MAILS, MAILS),
    ("work", PARKED, PARKED),
    ("work", DEAD, DEAD),
    ("retry", JOBS, WAIT),
)

RUNS: dict[str, Settings] = {
    "own": Settings(),
    "delivery-limit": Settings(arguments={JOBS: {"x-delivery-limit": 1}}),
    "waiting-time": Settings(arguments={WAIT: {"x-message-ttl": 900}}),
    "unbound-key": Settings(arguments={JOBS: {"x-dead-letter-routing-key": "nowhere"}}),
    "policy-added": Settings(policies={"impatient": {"pattern": "^burst$", "definition": {"message-ttl": 100}}}),
    "length-limit": Settings(policies={"short": {"pattern": "^burst$", "definition": {"max-length": 20}}}),
    "refused-when-full": Settings(
        policies={"short": {"pattern": "^burst$", "definition": {"max-length": 25, "overflow": "reject-publish"}}}
    ),
}
"""The settings by name; ``own`` are those of the log that questions are asked of."""


def arguments(queue: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of a queue under these settings."""
    return {**QUEUES[queue], **settings.arguments.get(queue, {})}
