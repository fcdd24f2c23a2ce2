"""What the commands take: the broker's URL."""

from __future__ import annotations

import sys
from pathlib import Path

EXIT_USAGE = 64


def broker_url() -> str:
    """The URL on the command line; ends the program with a line on how to use it where there is none."""
    arguments = sys.argv[1:]
    if len(arguments) == 1 and "://" in arguments[0]:
        return arguments[0]
    command = f"python -m examples.consumers.{Path(sys.argv[0]).stem}"
    print(f"usage: {command} amqp://user:password@host:port/vhost", file=sys.stderr)
    sys.exit(EXIT_USAGE)
