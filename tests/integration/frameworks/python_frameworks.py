"""The frameworks in Python: which packages they need, how their applications are run, and what a server kept of them.

``python -m tests.integration.frameworks.python_frameworks`` runs all, or those named, on the server of 4.3 that
``DLX_LIVE_SERVERS`` names, and writes what is there afterwards into ``recorded/``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simulator.testing.brokers.servers import Server
from tests.clients.cache import virtualenv
from tests.integration.frameworks.running import APPLICATION_SECONDS, Outcome, keep, run
from tests.live import servers

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
RELEASE = "4.3"
REQUIREMENTS = (
    "celery==5.7.0", "kombu==5.7.0", "amqp==5.4.2", "dramatiq[rabbitmq]==2.2.1", "pika==1.4.4",
    "faststream[rabbit]==0.7.8", "aio-pika==9.6.2", "aiormq==6.9.4", "taskiq==0.13.0", "taskiq-aio-pika==0.6.1",
    "nameko==2.14.1", "eventlet==0.41.3",
    "msgspec==0.22.0", "regex==2026.11.15", "click==8.5.1", "rich==15.0.0",   # what dlx needs, for the pages' examples
)  # fmt: skip


@dataclass(frozen=True)
class Framework:
    """An application in ``apps/`` and its environment. What its clients do is in ``apps/NAME.toml``, for lint."""

    application: str
    env: Mapping[str, str] = field(default_factory=dict)
    lint: Mapping[str, set[str]] = field(default_factory=dict)
    """What lint finds in what the application declares: names of objects by rule, with * for a number in a name."""


FRAMEWORKS: dict[str, Framework] = {
    "celery": Framework("celery", {"TYPE": "quorum"}, {
        "no-dlx-on-rejecting": {"without", "elsewhere"}, "unroutable-dead-letter": {"celery_delayed_*"},
        "default-delivery-limit": {"without", "elsewhere", "waiting"},
    }),
    "celery-classic": Framework("celery", {"TYPE": "classic"}, {"no-dlx-on-rejecting": {"without", "elsewhere"}}),
    "kombu": Framework("kombu", lint={"no-dlx-on-rejecting": {"simple", "urgent"}}),
    "dramatiq": Framework("dramatiq", lint={"bounded-dead-letter-queue": {"orders.XQ"}}),
    "faststream": Framework("faststream", lint={"no-dlx-on-rejecting": {"without"}}),
    "aio-pika": Framework("aio_pika", lint={"no-dlx-on-rejecting": {"without"}}),
    "taskiq": Framework("taskiq", lint={
        "head-of-line-ttl": {"taskiq.delay"}, "default-delivery-limit": {"taskiq"},
    }),
    "nameko": Framework("nameko", lint={"queue-removed-with-messages": {"rpc.reply-standalone_rpc_proxy-UUID"}}),
}  # fmt: skip


def run_application(name: str, broker: Server) -> Outcome:
    """Run the application of that framework. Raises ``UnobtainableError`` where its packages cannot be had."""
    framework = FRAMEWORKS[name]
    # -P: an application is named as the package that it imports.
    command = [virtualenv(REQUIREMENTS), "-P", HERE / "apps" / f"{framework.application}.py"]
    return run(command, framework.env, broker)


def run_example(code: str) -> str:
    """Run code of a page, which serves a simulated broker itself; what it prints. Raises where it fails."""
    command = [virtualenv(REQUIREMENTS), "-P", "-c", code]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=APPLICATION_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    (server,) = (each for each in servers.given() if each.release == RELEASE)
    for each in sys.argv[1:] or FRAMEWORKS:
        keep(each, run_application(each, server))
