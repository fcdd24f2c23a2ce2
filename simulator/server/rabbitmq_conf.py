"""The settings of a node in a container: RabbitMQ's variables of the environment and rabbitmq.conf.

Source: https://www.rabbitmq.com/docs/configure; rabbit.schema. Variables win over files, and a file over those whose
names sort before it in conf.d.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from dlx.nearest_names import suggestion

FOLDER = Path("/etc/rabbitmq")
_CLOCKS = ("wall", "virtual")
_VARIABLES = {
    "RABBITMQ_DEFAULT_USER": "default_user",
    "RABBITMQ_DEFAULT_PASS": "default_pass",
    "RABBITMQ_DEFAULT_VHOST": "default_vhost",
    "RABBITMQ_NODE_PORT": "listeners.tcp.default",
}
_READ_HERE = {"RABBITMQ_CONFIG_FILE", "RABBITMQ_CONFIG_FILES", "RABBITMQ_NODENAME"}
# Set by images themselves, and nothing that a user asks for.
_OF_IMAGES = {"RABBITMQ_VERSION", "RABBITMQ_HOME", "RABBITMQ_DATA_DIR", "RABBITMQ_LOGS"}
_LINE = re.compile(r"(?P<key>[^\s=#]+)\s*=\s*(?P<value>'[^']*'|[^#]*?)\s*(#.*)?")
_PORT = re.compile(r"(?:(?P<host>.+):)?(?P<port>\d{1,5})")
_DEFINITIONS = ("load_definitions", "management.load_definitions", "definitions.local.path")
_PORTS = {
    "management.tcp.port": "management_port",
    "management.listener.port": "management_port",
    "prometheus.tcp.port": "metrics_port",
}
_DEFAULTS = {
    "default_user": "user",
    "default_pass": "password",
    "default_vhost": "vhost",
    "default_permissions.configure": "configure",
    "default_permissions.write": "write",
    "default_permissions.read": "read",
}


class SettingsError(ValueError):
    """A setting cannot be read: where it stands, and what would be right."""


class Settings(msgspec.Struct, kw_only=True):
    """How to start the node.

    Attributes:
        release: the release to simulate; ``None``: that of the definitions, or the newest.
        clock: ``wall`` or ``virtual``.
        node: the node's name.
        user, password, vhost, configure, write, read, tags: the user and the virtual host of a node without
            definitions, and the user's permissions there.
        definitions: the definitions files named, or folders of them; a node that loads some has no default user.
        loopback_users: the users who may log in from the container only.
        consumer_timeout_ms: of all queues, ``None``: the release's.
        port, management_port, metrics_port: where to listen.
        read_from: the files that were read.
        ignored: what has no effect here: each setting, with the place where it stands.
    """

    release: str | None = None
    clock: str = "wall"
    node: str = "rabbit@localhost"
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    configure: str = ".*"
    write: str = ".*"
    read: str = ".*"
    tags: tuple[str, ...] = ("administrator",)
    definitions: list[Path] = []
    loopback_users: frozenset[str] = frozenset()
    consumer_timeout_ms: int | None = None
    port: int = 5672
    management_port: int = 15672
    metrics_port: int = 15692
    read_from: list[Path] = []
    ignored: list[str] = []


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the environment, and the files of ``/etc/rabbitmq`` or those that it names.

    Raises ``SettingsError``.
    """
    settings = Settings(
        release=environment.get("DLX_RELEASE") or None,
        clock=environment.get("DLX_CLOCK") or "wall",
        node=environment.get("RABBITMQ_NODENAME") or "rabbit@localhost",
    )
    if settings.clock not in _CLOCKS:
        raise SettingsError(
            f"DLX_CLOCK is wall or virtual, not {settings.clock!r}; {suggestion(settings.clock, _CLOCKS)}"
        )
    for path in _files(environment):
        settings.read_from.append(path)
        for key, value, place in _lines(path):
            _take(settings, key, value, place)
    for variable in sorted(environment):
        if variable in _VARIABLES and environment[variable]:
            _take(settings, _VARIABLES[variable], environment[variable], variable)
        elif variable.startswith("RABBITMQ_") and variable not in _READ_HERE | _OF_IMAGES | _VARIABLES.keys():
            settings.ignored.append(variable)
    return settings


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files there are, the first read first."""
    named = environment.get("RABBITMQ_CONFIG_FILE")
    main = Path(named) if named else FOLDER / "rabbitmq.conf"
    more = Path(environment.get("RABBITMQ_CONFIG_FILES") or FOLDER / "conf.d")
    if main.suffix not in (".conf", ".config"):
        main = main.with_name(f"{main.name}.conf")
    if main.suffix == ".config":
        raise SettingsError(f"{main} is in Erlang's terms, which are not read here: write it as rabbitmq.conf")
    if named and not main.exists():
        raise SettingsError(f"RABBITMQ_CONFIG_FILE names {main}, and there is no such file")
    files = more.glob("*.conf") if more.is_dir() else more.parent.glob(more.name)
    yield from (path for path in (main, *sorted(files)) if path.is_file())


def _lines(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the value and the place of each setting. Raises ``SettingsError``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise SettingsError(f"{path}:{number}: expected KEY = VALUE, got {line.split()[0]!r:.40} ...")
        yield found["key"], found["value"].strip("'"), f"{path}:{number}"


def _take(settings: Settings, key: str, value: str, place: str) -> None:
    """Put one setting where it counts, or note that it does not. Raises ``SettingsError``."""
    if key in _DEFAULTS:
        setattr(settings, _DEFAULTS[key], value)
    elif key in _PORTS:
        setattr(settings, _PORTS[key], _port(value, key, place))
    elif key.startswith("listeners.tcp."):
        settings.port = _port(value, key, place)
    elif key in _DEFINITIONS:
        settings.definitions = _definitions(Path(value), key, place)
    elif key == "consumer_timeout":
        settings.consumer_timeout_ms = _number(value, key, place)
    elif key == "loopback_users":
        settings.loopback_users = frozenset() if value == "none" else frozenset({value})
    elif key.startswith("loopback_users."):
        name = key.removeprefix("loopback_users.")
        settings.loopback_users -= {name}
        settings.loopback_users |= {name} if _truth(value, key, place) else frozenset()
    elif key.startswith("default_user_tags."):
        tag = key.removeprefix("default_user_tags.")
        others = tuple(each for each in settings.tags if each != tag)
        settings.tags = (*others, tag) if _truth(value, key, place) else others
    elif (key, value) != ("definitions.import_backend", "local_filesystem"):
        settings.ignored.append(f"{key} ({place})")


def _port(value: str, key: str, place: str) -> int:
    found = _PORT.fullmatch(value)
    if found is None or int(found["port"]) > 65_535:
        raise SettingsError(f"{place}: {key} takes a port such as 5672, or ADDRESS:PORT; got {value!r:.80}")
    return int(found["port"])


def _number(value: str, key: str, place: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise SettingsError(f"{place}: {key} takes a number of milliseconds, got {value!r:.80}")
    return int(value)


def _truth(value: str, key: str, place: str) -> bool:
    if value not in ("true", "false"):
        raise SettingsError(f"{place}: {key} takes true or false, got {value!r:.80}")
    return value == "true"


def _definitions(path: Path, key: str, place: str) -> list[Path]:
    if path.is_dir():
        return sorted(each for each in path.iterdir() if each.suffix == ".json")
    if not path.is_file():
        raise SettingsError(f"{place}: {key} names {path}, and there is no such file or folder")
    return [path]


def report(settings: Settings) -> Iterable[str]:
    """Yield a line for each file that was read, and for each setting that has no effect."""
    yield from (f"settings read from {path}" for path in settings.read_from)
    yield from (f"ignored, for it has no effect here: {each}" for each in settings.ignored)
