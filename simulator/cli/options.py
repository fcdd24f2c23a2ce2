"""What several commands are given alike: the paths of files, the release, and the engine of a replay."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click

from dlx.releases import DEFAULT, RELEASES, Release, StandInRelease, UnknownReleaseError, release, release_and_remark
from simulator.cli.command_parts import DataError, Function, data_errors
from simulator.definitions import Definitions
from simulator.definitions.checks import own_release, version_note
from simulator.definitions.places import repeated_key
from simulator.extras import check_installed, is_installed
from simulator.files import is_url
from simulator.json_reading import may_have_equal_keys, read_json_object_and_text
from simulator.sources.document import shown_path

# Paths that a command reads from. A URL in place of one is refused with the command that makes a file of it.


class GivenFile(click.Path):
    """A path to read from.

    Args:
        instead: says how to get such a file from a running server.
    """

    def __init__(self, instead: str = "") -> None:
        super().__init__(path_type=Path)
        self.instead = instead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Fails with a usage error if ``value`` is a URL."""
        if isinstance(value, str) and is_url(value):
            from simulator.capture.access import hidden  # imported here: few paths are URLs

            self.fail(f"{hidden(value)} is a URL, and a file is needed here. {self.instead}".rstrip(), param, ctx)
        return super().convert(value, param, ctx)


DEFINITIONS = GivenFile(
    "Export the definitions first: `rabbitmqctl export_definitions definitions.json`, or "
    "`dlx convert --redact http://USER@HOST:15672 --out definitions.json`, which needs no administrator."
)
LOG = GivenFile("Record a log first: `dlx capture --url amqp://USER@HOST/VHOST --out log.parquet`.")
COUNTERS = GivenFile("Record it with the log first: `dlx capture --metrics-url http://HOST:15692/metrics ...`.")
SCENARIO = GivenFile("Download it first.")

# Where a command writes traces for OpenTelemetry's tools.


def _otlp_file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Return the file, if it can be made and there is what writes it: before the work, and not after it."""
    if path is not None:
        check_installed("otlp")
        import simulator.otlp  # noqa: F401  which fails where a part of the library is missing

        if not path.absolute().parent.is_dir():
            raise click.BadParameter(f"there is no folder {path.absolute().parent}")
        if path.exists() and not path.is_file():
            raise click.BadParameter(f"{path} is a device or a pipe; a file is needed")
        if path.exists() and not _may_be_traces(path):
            raise click.BadParameter(f"{path} is there and holds no traces; give the name of a new file")
    return path


def _may_be_traces(path: Path) -> bool:
    """Return whether a file is empty or begins as traces do. Any other may be a log, and is not written over."""
    start = b'{"resourceSpans"'
    with path.open("rb") as file:
        return file.read(len(start)) in (b"", start)


def otlp_option(what: str) -> Callable[[Function], Function]:
    """Return the option ``--otlp``. ``what``: which messages it has, and when it is written."""
    return click.option(
        "--otlp",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        callback=_otlp_file,
        help=f"File for {what} as OpenTelemetry traces, a line of OTLP JSON each, for Jaeger and the Collector.",
    )


# Reads the JSON files that a command is given.


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises:
        DataError: the file cannot be read, holds something else, or has a key twice in one object.
    """
    with data_errors():
        document, data = read_json_object_and_text(path)
    if may_have_equal_keys(data, document) and (found := repeated_key(data)):
        key, line = found
        raise DataError(f"{path}: line {line}: {shown_path(key)}: the key is there twice; keep one")
    return document


# The RabbitMQ release that a command follows.


class GivenRelease(click.Choice):  # type: ignore[type-arg]  # which takes an argument from click 8.2 on
    """A release by name, or by a version: then a note on standard error says which version stands in for it."""

    def __init__(self) -> None:
        super().__init__(RELEASES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the release's name. Fails with a usage error that names the nearest if there are no rules for it."""
        try:
            found, remark = release_and_remark(value)
        except UnknownReleaseError as error:
            self.fail(str(error), param, ctx)
        if remark is not None:
            _note(remark)
        return found.name


RELEASE = GivenRelease()
OWN_OR_DEFAULT = f"that of the server which exported the definitions, if they say so, else {DEFAULT}"


def release_option(help: str) -> Callable[[Function], Function]:  # as click calls it
    """Return the option ``--release`` of a command that takes it as ``rules``; ``chosen_release`` fills it in."""
    return click.option("--release", "rules", type=RELEASE, show_default=OWN_OR_DEFAULT, help=help)


def chosen_release(definitions: Definitions, given: str | None) -> str:
    """Return the release that is given, or else that of the server which exported the definitions, or the default.

    A note on standard error says which, unless it is the obvious one.
    """
    note_remarks(definitions.remarks)
    own = own_release(definitions)
    rules = given or own or DEFAULT
    if given is None and own not in (None, DEFAULT):
        _note(f"RabbitMQ {definitions.rabbitmq_version} exported the definitions, so the rules are those of {own}")
    remark = version_note(definitions, release(rules))
    if remark is not None and own != rules:
        _note(remark)
    return rules


@contextmanager
def stand_ins_noted() -> Iterator[None]:
    """Print notes on standard error, and no warnings, of the versions that stand in for others in this block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", StandInRelease)
        show = warnings.showwarning

        def noted(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, StandInRelease):
                _note(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = noted
        yield


def stand_ins(read: Definitions, rules: Release) -> Iterator[str]:
    """Yield a remark on each thing that a broker has in place of what an export names and leaves out."""
    from simulator.analysis.findings import ObjectName
    from simulator.bootstrap import completed_definitions

    whole = completed_definitions(read, rules)
    told = [(ObjectName("queue", *at), "exclusive queues", "a classic queue") for at in sorted(whole.queues)]
    for at, kind in sorted(whole.exchanges.items()):
        told.append((ObjectName("exchange", *at), "internal exchanges", f"a {kind} exchange"))
    for about, left_out, instead in told:
        why = f"it is named here and not declared, as exports leave out {left_out}"
        yield f"{about}: {why} (the broker has {instead} in its place)"


def note_remarks(remarks: Iterable[str]) -> None:
    """Print a note on standard error of each remark."""
    for remark in remarks:
        _note(remark)


def _note(remark: str) -> None:
    click.echo(f"note: {remark}", err=True)


# Where a command reads its log: in this process, or on Spark.


MASTER = "local[*]"


class GivenEngine(NamedTuple):
    """What the user asked for.

    Attributes:
        name: auto, local or spark.
        master: the Spark master.
        local_rows_max: rows that auto reads in this process even if Spark is installed.
    """

    name: str
    master: str
    local_rows_max: int

    def is_spark(self, rows: int) -> bool:
        """Return whether Spark reads a log of that many rows."""
        large = rows > self.local_rows_max
        return self.name == "spark" or (self.name == "auto" and large and is_installed("pyspark"))


def engine_options(local_rows_max: int) -> Callable[[Function], Function]:  # as click calls it
    """Return the options ``--engine`` and ``--master`` of a command that takes ``engine`` and ``master``."""
    auto = f"auto: on Spark above {local_rows_max:,} rows if it is installed, or with --master."
    engine = click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help=f"Work in this process, or on Spark. {auto}",
    )
    master = click.option("--master", metavar="URL", help=f"Spark master to run on. [default: {MASTER}]")
    return lambda command: engine(master(command))


def given_engine(engine: str, master: str | None, local_rows_max: int) -> GivenEngine:
    """Return the engine that these options ask for.

    Raises a usage error for options that contradict each other, and ``ExtraMissingError`` if Spark is asked for and
    not installed.
    """
    if engine == "local" and master is not None:
        raise click.UsageError("--master names a Spark master, and --engine local does without Spark")
    name = "spark" if engine == "auto" and master is not None else engine
    check_installed("spark" if name == "spark" else "replay")
    return GivenEngine(name, master or MASTER, local_rows_max)
