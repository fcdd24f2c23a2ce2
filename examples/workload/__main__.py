"""The command line, from the root of the repository:

    python -m examples.workload --url amqp://guest:guest@localhost:5672/ \\
        --management-url http://localhost:15672 --out captured

writes ``captured/trace.log`` (the JSON log of the rabbitmq_tracing plugin) and
``captured/definitions.json`` (the virtual host's export, policies included).
Works with RabbitMQ 3.8 and later. What is published depends on ``--seed`` and
``--messages`` alone; the interleaving of deliveries is the broker's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import NoReturn

import pika.exceptions

from examples.workload.broker import Broker, Unavailable
from examples.workload.recording import VhostExists, collect, play, save, traced_vhost, wait_for_quiet
from examples.workload.stage import Stage
from examples.workload.summary import summarize
from examples.workload.virtual_time import VirtualStage

EXIT_FINDINGS, EXIT_USAGE, EXIT_UNAVAILABLE = 1, 64, 69
MESSAGES_MIN = 20


def capture(arguments: argparse.Namespace) -> list[str]:
    """Run all scenarios, write the two files into ``--out``; returns findings."""
    broker = Broker(arguments.url, arguments.management_url, arguments.vhost)
    print(f"RabbitMQ {broker.version}, virtual host {broker.vhost}", file=sys.stderr)
    with traced_vhost(broker) as trace:
        published = play(broker, arguments.messages, arguments.seed, arguments.stage)
        wait_for_quiet(broker, trace)
        log, definitions = collect(broker, trace)
    rows = [json.loads(line) for line in log.splitlines()]
    save(arguments.out, log, definitions, compressed=arguments.gzip)
    return summarize(rows, published)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main() -> int:
    parser = Parser(
        prog="python -m examples.workload",
        description="Record a RabbitMQ trace log of every way a message can die.",
    )
    parser.add_argument("--url", required=True, help="amqp://user:password@host:port/")
    parser.add_argument("--management-url", required=True, help="http://host:port of the management plugin")
    parser.add_argument("--vhost", default="dlx-workload", help="created, and deleted at the end")
    parser.add_argument("--messages", type=int, default=75, help="messages per scenario, about (75)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--virtual-clock",
        dest="stage",
        action="store_const",
        const=VirtualStage,
        default=Stage,
        help="the server is dlx serve --clock virtual: move its time instead of waiting",
    )
    parser.add_argument("--gzip", action="store_true", help="write trace.log.gz")
    parser.add_argument("--out", type=Path, required=True, help="directory for the two files")
    arguments = parser.parse_args()
    if arguments.messages < MESSAGES_MIN:
        parser.error(f"--messages {arguments.messages}: at least {MESSAGES_MIN}, or some scenarios show nothing")
    try:
        findings = capture(arguments)
    except VhostExists as error:
        parser.error(str(error))
    except (Unavailable, pika.exceptions.AMQPError) as error:
        print(f"workload: {str(error) or repr(error)}", file=sys.stderr)
        return EXIT_UNAVAILABLE
    for finding in findings:
        print(f"workload: {finding}", file=sys.stderr)
    return EXIT_FINDINGS if findings else 0


if __name__ == "__main__":
    sys.exit(main())
