"""``dlx replay --form activemq``: the log of an ActiveMQ broker, against what its rules rule out."""

from __future__ import annotations

from pathlib import Path

from dlx.activemq.settings import BrokerSettings
from simulator.activemq.activemq_xml import ConfigurationError, broker_settings
from simulator.cli.checked_logs import show_checked
from simulator.cli.command_parts import DataError
from simulator.replay.activemq_log import CheckedBrokerLog, check_broker_log, read_log

_ASSUMED = "ActiveMQ Classic 5.17, a log from one broker, and no dead letters before it begins"
_PLUGIN = '<plugins><loggingBrokerPlugin logAll="true"/></plugins>'


def replay_activemq(logs: tuple[Path, ...], *, definitions_path: Path | None = None, as_json: bool = False) -> int:
    """Check logs, print what cannot be, and return the exit code.

    Args:
        logs: of brokers with the loggingBrokerPlugin.
        definitions_path: the broker's ``activemq.xml``, by which destinations are checked.
        as_json: for machines.

    Raises:
        DataError: a log without a line of the plugin, or a configuration that no broker starts with.
    """
    settings = None if definitions_path is None else _settings(definitions_path)
    checked = [(path, _checked(path, settings)) for path in logs]
    read = [(path, each, f"{each.messages} lines of messages") for path, each in checked]
    return show_checked(read, _ASSUMED, as_json=as_json)


def _checked(path: Path, settings: BrokerSettings | None) -> CheckedBrokerLog:
    with path.open(encoding="utf-8", errors="replace") as lines:
        checked = check_broker_log(read_log(lines), settings)
    if not checked.messages:
        raise DataError(
            f"{path}: no line of the loggingBrokerPlugin tells of a message; expected a broker with {_PLUGIN}"
        )
    return checked


def _settings(path: Path) -> BrokerSettings:
    try:
        return broker_settings(path.read_bytes())
    except ConfigurationError as error:
        raise DataError(f"{path}: {error}") from error
