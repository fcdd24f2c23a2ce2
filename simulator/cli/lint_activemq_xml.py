"""``dlx lint`` of an ``activemq.xml``."""

from __future__ import annotations

from simulator.cli.command_parts import DataError
from simulator.cli.lint_places import LintedFile, Placed
from simulator.json_reading import UTF8_MARK
from simulator.systems.activemq.activemq_xml import ConfigurationError
from simulator.systems.activemq.lint import lint

_ASSUMED = ("the broker is ActiveMQ Classic 5.17, and the file is its whole configuration",)
_UNCHECKED = (
    "what clients ask for: redelivery policies, time to live, persistence; selectors and message groups, which starve "
    "behind a page of messages for others (maxPageSize, 200 by default)",
    "whether anybody reads the dead-letter queues: `dlx simulate activemq` plays histories",
)


def is_activemq_xml(data: bytes) -> bool:
    """Return whether a file has XML."""
    return data.removeprefix(UTF8_MARK).lstrip().startswith(b"<")


def lint_activemq_xml(name: str, data: bytes) -> LintedFile:
    """Lint one configuration. Raises ``DataError`` for one that no broker starts with."""
    try:
        linted = lint(data)
    except ConfigurationError as error:
        raise DataError(f"{name}: {error}") from error
    findings = tuple(
        Placed(each.line, each.column, each.severity, f"{each.text}; {each.fix}") for each in linted.findings
    )
    unchecked = (*linted.not_simulated, *_UNCHECKED)
    assumed = (*_ASSUMED, *linted.assumed)
    return LintedFile(
        name, "activemq", ("policies", linted.policies), "ActiveMQ's broker", findings, assumed, unchecked
    )
