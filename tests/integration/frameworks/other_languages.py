"""Frameworks and clients in other languages than Python: how their applications are run, and what a server kept.

Each in ``apps/`` does what its framework's documents show of retries and dead letters, and ends; ``apps/NAME.toml``
states what its clients do, where that matters. ``tools/frameworks`` installs the languages.
``python -m tests.integration.frameworks.other_languages`` runs all, or those named, on the server of 4.3 that
``DLX_LIVE_SERVERS`` names, and writes what is there afterwards into ``recorded/``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.analysis.clients import Clients
from simulator.lint_reports.project import read_config
from simulator.testing.brokers.servers import Server
from tests.clients.cache import UnobtainableError, npm_packages
from tests.integration.frameworks.running import Outcome, keep, run
from tests.live import servers

HERE = Path(__file__).parent
RELEASE = "4.3"
NPM = (
    "amqplib@2.3.1", "amqp-connection-manager@5.0.0", "rascal@21.0.1", "@golevelup/nestjs-rabbitmq@9.0.2",
    "@nestjs/common@11.2.10", "@nestjs/core@11.2.10", "reflect-metadata@0.2.2", "rxjs@7.8.2",
)  # fmt: skip
LANGUAGES = {".js": ("node",), ".php": ("php",), ".rb": ("ruby",), ".go": ("go", "run")}
GO = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""}  # as Debian packs libraries


@dataclass(frozen=True)
class Application:
    """A file of ``apps/``, and the names of what lint finds fault with in what it declares, by rule.

    ``reported`` is where users report the same: of the framework, or of what is built on it. ``unchecked`` is what lint
    says that it cannot answer.
    """

    file: str
    findings: Mapping[str, set[str]]
    reported: tuple[str, ...]
    unchecked: tuple[str, ...] = ()

    @property
    def clients(self) -> Clients:
        """What its clients do, as far as it is stated."""
        stated = HERE / "apps" / f"{Path(self.file).stem}.toml"
        return read_config(stated).clients if stated.exists() else Clients()


APPLICATIONS: dict[str, Application] = {
    # A queue that waits and sends back knows no end; a limit is a quorum queue's. The headers lack a binding's value.
    "amqplib": Application(
        "amqplib.js",
        {
            "endless-retry": {"orders"},
            "unroutable-dead-letter": {"quotes"},
            "unbounded-dead-letter-queue": {"latest.older"},
        },
        ("https://github.com/amqp-node/amqplib/issues/488", "https://github.com/amqp-node/amqplib/issues/597"),
    ),
    # Dead letters keep their keys, and the bindings behind the dead-letter exchange have only some of them.
    "amqp-connection-manager": Application(
        "amqp-connection-manager.js",
        {"unroutable-dead-letter": {"jobs"}},
        ("https://github.com/btravstack/amqp-contract/pull/618",),
    ),
    # What was republished has the queue's name as its key, and dead letters of that key have no binding.
    "rascal": Application(
        "rascal.js",
        {"unroutable-dead-letter": {"registration:user:check"}},
        ("https://github.com/onebeyond/rascal/issues/155",),
    ),
    # The default puts a message back without end. A crash counts, and there is a limit that nobody set.
    "nestjs": Application(
        "nestjs.js",
        {
            "no-dlx-on-rejecting": {"default"},
            "default-delivery-limit": {"default"},
            "lost-if-published-by-queue-name": {"failed"},
        },
        (
            "https://github.com/golevelup/nestjs/issues/199",
            "https://github.com/golevelup/nestjs/issues/310",
            "https://github.com/golevelup/nestjs/issues/1141",
        ),
    ),
    # It declares a delay queue each time before it publishes, which helps no quorum queue. What it rejects is
    # dead-lettered at each try, and what goes to a failure transport has the queue's name as its key here.
    "symfony": Application(
        "symfony.php",
        {},
        (
            "https://github.com/symfony/symfony/issues/57867",
            "https://github.com/symfony/symfony/issues/40797",
            "https://github.com/symfony/symfony/issues/37985",
        ),
        ("what is published to exchange 'failed_bills' (clients.publish[4]): no queue takes the keys",),
    ),
    # The same queues for delays, which this process declares once.
    "php-amqplib": Application(
        "php-amqplib.php",
        {"queue-removed-with-messages": {"tasks.delay.50", "tasks.delay.100"}},
        (
            "https://github.com/vyuldashev/laravel-queue-rabbitmq/pull/606",
            "https://github.com/php-amqplib/RabbitMqBundle/issues/157",
        ),
    ),
    # Who is refused learns it from a confirm, and the dead letter says where. An export leaves out internal exchanges.
    "bunny": Application(
        "bunny.rb",
        {
            "bounded-dead-letter-queue": {"copies"},
            "unbounded-dead-letter-queue": {"refused"},
            "undeclared-name": {"events.audit"},
        },
        (
            "https://github.com/rabbitmq/rabbitmq-server/issues/1443",
            "https://github.com/rabbitmq/rabbitmq-server/issues/8495",
            "https://github.com/rabbitmq/rabbitmq-server/pull/15320",
        ),
        ("how exchange 'events.audit' routes, which is not declared: here as a fanout exchange",),
    ),
    # A rejection counts towards the delivery limit of 4.3, and basic.nack does not. What expires is lost without a DLX.
    "amqp091-go": Application(
        "amqp091.go",
        {
            "no-dlx-on-rejecting": {"everything"},
            "endless-retry": {"mails"},
            "bounded-dead-letter-queue": {"invoices.failed"},
            "lost-if-published-by-queue-name": {"billing.dlx"},
        },
        (
            "https://github.com/rabbitmq/rabbitmq-server/pull/15387",
            "https://github.com/rabbitmq/rabbitmq-server/issues/2058",
            "https://github.com/amqp-node/amqplib/issues/494",
        ),
    ),
}


def run_application(name: str, broker: Server) -> Outcome:
    """Run it. Raises ``UnobtainableError`` where its language or its packages cannot be had."""
    file = HERE / "apps" / APPLICATIONS[name].file
    program, *options = LANGUAGES[file.suffix]
    if shutil.which(program) is None:
        raise UnobtainableError(f"needs '{program}': tools/frameworks installs it")
    env = {".js": _node, ".go": lambda: GO}.get(file.suffix, dict)()
    return run([program, *options, file], env, broker)


def _node() -> dict[str, str]:
    return {"NODE_PATH": str(npm_packages("frameworks", NPM) / "node_modules")}


if __name__ == "__main__":
    (server,) = (each for each in servers.given() if each.release == RELEASE)
    for each in sys.argv[1:] or APPLICATIONS:
        keep(each, run_application(each, server))
