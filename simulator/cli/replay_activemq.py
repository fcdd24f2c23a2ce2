"""``dlx replay --form activemq``: the log of an ActiveMQ broker, against what its rules rule out."""

from __future__ import annotations

from io import TextIOWrapper
from pathlib import Path

from simulator.capture.sources import UNREADABLE, open_source
from simulator.cli.checked_logs import show_checked
from simulator.cli.command_parts import DataError
from simulator.cli.given_logs import must_exist
from simulator.systems.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.systems.activemq.broker_log import CheckedBrokerLog, check_broker_log, read_log
from simulator.systems.activemq.settings import BrokerSettings

_ASSUMED = "ActiveMQ Classic 5.17, a log from one broker, and no dead letters before it begins"
_PLUGIN = '<plugins><loggingBrokerPlugin logAll="true"/></plugins>'


def replay_activemq(logs: tuple[Path, ...], *, definitions_path: Path | None = None, as_json: bool = False) -> int:
    """Check logs, print the findings, and return the exit code.

    Args:
        logs: of brokers with the loggingBrokerPlugin, plain or gzip-compressed.
        definitions_path: the broker's ``activemq.xml``, by which destinations are checked.
        as_json: for machines.

    Raises:
        DataError: a log without a line of the plugin, or a configuration that is missing or that no broker starts with.
    """
    settings = None if definitions_path is None else _settings(definitions_path)
    checked = [(path, _checked(path, settings)) for path in logs]
    read = [(path, each, f"{each.messages} lines of messages") for path, each in checked]
    return show_checked(read, _ASSUMED, as_json=as_json)


def _checked(path: Path, settings: BrokerSettings | None) -> CheckedBrokerLog:
    try:
        with TextIOWrapper(open_source(path), encoding="utf-8", errors="replace") as lines:
            checked = check_broker_log(read_log(lines), settings)
    except UNREADABLE as error:
        raise DataError(f"{path}: the gzip stream is damaged: {error}") from error
    if not checked.messages and checked.first_unread:
        raise DataError(
            f"{path}: line {checked.first_unread}: expected the date and time as 2026-11-24 13:42:20,645, and a whole "
            "message as ActiveMQ 5.17 writes it; no line about a message can be read"
        )
    if not checked.messages:
        raise DataError(
            f"{path}: the loggingBrokerPlugin wrote no line about a message; expected a broker with {_PLUGIN}"
        )
    return checked


def _settings(path: Path) -> BrokerSettings:
    must_exist([path])
    try:
        return broker_settings(path.read_bytes())
    except ConfigurationError as error:
        raise DataError(f"{path}: {error}") from error
