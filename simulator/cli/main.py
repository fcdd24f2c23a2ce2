"""The command ``dlx``: finds the sub-command and turns errors into exit codes.

0: success. 1: findings. 64: wrong usage. 65: bad data. 69: a server or library is missing. 70: a bug in dlx.
130: interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem, shell_complete

import dlx
from dlx.nearest_names import suggestion
from dlx.plugins import PluginError
from simulator.cli.command_parts import example
from simulator.extras import missing

EXIT_USAGE = 64
EXIT_DATA = 65
EXIT_UNAVAILABLE = 69
EXIT_SOFTWARE = 70
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells count
EXIT_PIPE = 141  # 128 + SIGPIPE
# Set by the shells' completion scripts; `_DLX_COMPLETE=bash_source dlx` prints the one for bash.
COMPLETE_VARIABLE = "_DLX_COMPLETE"

# Each command: its name, the function to import, and its line in `dlx --help`, which imports no command.
COMMANDS: dict[str, tuple[str, str]] = {
    "capture": ("simulator.cli.capture:capture", "Record the traffic of a running RabbitMQ into a Parquet file."),
    "compare": (
        "simulator.cli.compare:compare",
        "Run one scenario under several messaging systems and compare the outcomes.",
    ),
    "convert": (
        "simulator.cli.capture:convert",
        "Convert RabbitMQ trace logs into one Parquet file, or a topology into another form.",
    ),
    "doctor": (
        "simulator.cli.doctor:doctor",
        "Say what a full dead-letter queue holds, why, what a redrive would do, and what to run next.",
    ),
    "explain": ("simulator.cli.explain:explain", "Explain the life of one message, with the rule behind each step."),
    "fuzz": ("simulator.cli.fuzz:fuzz", "Search for a history in which a topology loses messages."),
    "generate": ("simulator.cli.generate:generate", "Make a log of any size from definitions and a seed."),
    "graph": ("simulator.cli.graph:graph", "Draw a topology: where dead letters go, and where they are lost."),
    "inspect": ("simulator.cli.inspect:inspect", "Look into a dead-letter queue: what died, where, why, how often."),
    "lint": ("simulator.cli.lint:lint", "Find what definitions get wrong about dead letters: losses first."),
    "plan": (
        "simulator.cli.plan:plan",
        "Say in which steps a server comes to another topology, and what is lost on the way.",
    ),
    "record": ("simulator.cli.record:record", "Run an application against a simulated RabbitMQ and say what it loses."),
    "redrive": (
        "simulator.cli.redrive:redrive",
        "Bring messages back from a dead-letter queue, after a dry run, without losing one.",
    ),
    "releases": ("simulator.cli.releases:releases", "Show what differs between releases of RabbitMQ."),
    "replay": ("simulator.cli.replay:replay", "Replay captured logs and compare predictions with deliveries."),
    "serve": ("simulator.cli.serve:serve", "Run a simulated RabbitMQ for AMQP clients."),
    "settings": ("simulator.cli.settings:settings", "Show each queue's effective settings and where they come from."),
    "simulate": ("simulator.cli.simulate:simulate", "Run a scenario under one system and print what happened."),
    "test": ("simulator.cli.test:test", "Run cases that say what queues must hold, on the simulator or on servers."),
    "watch": ("simulator.cli.watch:watch", "Replay a log while it grows: verdicts, losses and deaths as they come."),
    "whatif": (
        "simulator.cli.whatif:whatif",
        "Say what other settings, or another release, would have done to the messages of a log.",
    ),
    "upgrade": ("simulator.cli.upgrade:upgrade", "Say what an upgrade of RabbitMQ changes for a topology."),
}

# How `dlx --help` groups the commands: by what a person is about to do.
GROUPS: dict[str, tuple[str, ...]] = {
    "Design a topology": ("lint", "settings", "explain", "graph", "fuzz", "plan", "upgrade", "releases"),
    "Test": ("record", "serve", "test", "simulate", "compare"),
    "Investigate a log": ("capture", "convert", "generate", "replay", "whatif", "watch"),
    "Operate a server": ("doctor", "inspect", "redrive"),
}

# The extra that brings all that a command needs; the others run without one.
EXTRAS = {
    "capture": "capture",
    "convert": "capture",
    "doctor": "ops",
    "explain": "replay",
    "fuzz": "testing",
    "generate": "capture",
    "inspect": "ops",
    "record": "server",
    "replay": "replay",
    "test": "testing",
    "watch": "replay",
    "whatif": "replay",
    "redrive": "ops",
    "serve": "server",
}

EXAMPLE = example("dlx fuzz definitions.json")


class LazyGroup(click.Group):
    """A group that imports a sub-command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the sub-commands and options that begin with ``incomplete``. Imports no sub-command."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in names] + options

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"there is no command {name!r}; {suggestion(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names if name in COMMANDS])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXAMPLE)
@click.version_option(dlx.__version__, prog_name="dlx")
def cli() -> None:
    """Simulate RabbitMQ's dead-lettering, find topologies that lose messages, and replay captured logs."""


def main(args: Sequence[str] | None = None) -> int:
    """Run ``dlx`` with ``args`` (default: those of the process) and return the exit code.

    With ``DLX_DEBUG=1`` in the environment an unexpected error is raised with its traceback.
    """
    given = list(sys.argv[1:] if args is None else args)
    completion = os.environ.get(COMPLETE_VARIABLE) if args is None else None
    if completion:
        return shell_complete(cli, {}, "dlx", COMPLETE_VARIABLE, completion) and EXIT_USAGE
    try:
        # Not cli.main(): it ends a broken pipe with 1, which means findings here.
        with cli.make_context("dlx", given) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        click.UsageError(_without_passwords(error.format_message(), given), error.ctx).show()
        return EXIT_USAGE
    except click.ClickException as error:
        error.show()
        # click's own default, 1, means findings here
        return EXIT_DATA if error.exit_code == 1 else error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("dlx: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (say `head`) has gone; keep Python from complaining about it once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except SystemExit as end:
        # Rich ends a broken pipe with 1, too.
        if isinstance(end.__context__, BrokenPipeError):
            return EXIT_PIPE
        raise
    except Exception as error:
        if os.environ.get("DLX_DEBUG"):
            raise
        return _unexpected(error, given)
    return status if isinstance(status, int) else 0


def _without_passwords(text: str, args: Sequence[str]) -> str:
    """Return a text without the passwords of URLs among the arguments, which click repeats."""
    from simulator.capture.access import hidden  # imported here: few errors are about a URL

    for url in [arg[arg.index("=") + 1 :] if arg.startswith("--") and "=" in arg else arg for arg in args]:
        if "://" in url:
            text = text.replace(url, hidden(url))
    return text


def _unexpected(error: Exception, args: Sequence[str]) -> int:
    """Report an error that no command expects in one line, and return the exit code."""
    command = next((arg for arg in args if not arg.startswith("-")), "")
    needed = missing(error, EXTRAS.get(command)) if isinstance(error, ModuleNotFoundError) else None
    if isinstance(error, PluginError):
        needed = str(error)
    if needed:
        click.echo(f"dlx: {needed}", err=True)
        return EXIT_UNAVAILABLE
    problem = " ".join(_without_passwords(str(error), args).split()) or "no details"
    if len(problem) > 300:
        problem = problem[:300] + "…"
    click.echo(f"dlx: {type(error).__name__}: {problem} (a bug in dlx; set DLX_DEBUG=1 for the traceback)", err=True)
    return EXIT_SOFTWARE


if __name__ == "__main__":
    sys.exit(main())
