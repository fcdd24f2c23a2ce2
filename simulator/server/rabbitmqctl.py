"""As much of rabbitmqctl, rabbitmq-diagnostics and rabbitmq-plugins as set-ups of tests call, by the management API.

Needs the standard library alone, so it runs as a file, at once: ``python -IS rabbitmqctl.py add_vhost orders``. The
node is the one of the URL in ``$DLX_MANAGEMENT_URL`` (with user and password), else that which ``rabbitmq-server`` in
the image has started here (``NODE_FILE``). Lists, texts and exit codes are those of RabbitMQ 4.3, except for what is
said of wrong use.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

NODE_FILE = "/tmp/dlx-node.json"
"""Where ``rabbitmq-server`` says how to reach it, unless ``$DLX_NODE_FILE`` names another file."""
USAGE, BAD_DATA, NO_USER, UNAVAILABLE, SOFTWARE = 64, 65, 67, 69, 70
_AWAIT_S = 300
_PLUGINS = ("rabbitmq_management", "rabbitmq_management_agent", "rabbitmq_prometheus", "rabbitmq_tracing")


class CommandError(Exception):
    """The command failed: what to say, and with which code to exit."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Refused(Exception):
    """The management API answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status} {text}")
        self.status = status
        self.text = text

    def reason(self) -> str:
        """Return the reason of the refusal, without the JSON around it."""
        try:
            document = json.loads(self.text)
        except ValueError:
            return str(self)
        return str(document.get("reason", document)) if isinstance(document, dict) else self.text


def node_file() -> Path:
    """Return where the node of this machine says how to reach it."""
    return Path(os.environ.get("DLX_NODE_FILE", NODE_FILE))


def _node() -> dict[str, Any]:
    """Return the ``url`` of the management API, and where it is known the node's process, ``pid``."""
    if "DLX_MANAGEMENT_URL" in os.environ:
        return {"url": os.environ["DLX_MANAGEMENT_URL"]}
    try:
        found: dict[str, Any] = json.loads(node_file().read_text())
    except (OSError, ValueError) as error:
        raise CommandError("no node runs here, or it has not started yet", UNAVAILABLE) from error
    return found


def call(method: str, *path: str, body: object = None, reason: str = "") -> Any:
    """Ask the management API, and return the document that it answers.

    Raises ``Refused``, and ``CommandError`` where nobody answers.
    """
    parts = urlsplit(_node()["url"])
    if parts.scheme != "http":
        raise CommandError("DLX_MANAGEMENT_URL: expected a URL that begins with http://", UNAVAILABLE)
    user, password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30)
    try:
        with closing(connection):
            connection.request(
                method,
                "/api/" + "/".join(quote(part, safe="") for part in path),
                None if body is None else json.dumps(body),
                {"Authorization": f"Basic {login}", "Content-Type": "application/json", "X-Reason": reason},
            )
            response = connection.getresponse()
            text = response.read().decode()
    except OSError as error:
        raise CommandError(f"no node answers at {parts.hostname}:{parts.port}: {error}", UNAVAILABLE) from error
    if response.status >= 400:
        raise Refused(response.status, text)
    return json.loads(text) if text else None


def _exists(*path: str) -> bool:
    try:
        call("GET", *path)
    except Refused as error:
        if error.status == 404:
            return False
        raise
    return True


class Given(NamedTuple):
    """What a command was given: its plain arguments, and the options by their long names."""

    arguments: Sequence[str]
    options: Mapping[str, str]

    @property
    def quiet(self) -> bool:
        """Whether to say nothing but what was asked for."""
        return bool({"quiet", "silent"} & self.options.keys())

    @property
    def vhost(self) -> str:
        """The virtual host. Raises ``CommandError`` where there is none of that name."""
        name = self.options.get("vhost", "/")
        if not _exists("vhosts", name):
            raise CommandError(f"Virtual host '{name}' does not exist", BAD_DATA)
        return name

    @property
    def user(self) -> str:
        """The user who is the first argument. Raises ``CommandError`` where there is none of that name."""
        name = self.arguments[0]
        if not _exists("users", name):
            raise CommandError(f'User "{name}" does not exist', NO_USER)
        return name


# Users and virtual hosts


def _password(given: Given) -> str:
    if len(given.arguments) > 1:
        return given.arguments[1]
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("Password is not provided via argument or stdin", BAD_DATA)
    return password


def _add_user(given: Given) -> None:
    name = given.arguments[0]
    password = _password(given)
    if _exists("users", name):
        raise CommandError(f'User "{name}" already exists', SOFTWARE)
    call("PUT", "users", name, body={"password": password, "tags": ""})
    if not given.quiet:
        print("Done. Don't forget to grant the user permissions to some virtual hosts! See 'rabbitmqctl help", end=" ")
        print("set_permissions' to learn more.")


def _delete_user(given: Given) -> None:
    if _exists("users", given.arguments[0]):  # RabbitMQ says nothing of one that there is not
        call("DELETE", "users", given.arguments[0])


def _change_password(given: Given) -> None:
    name = given.user
    tags = call("GET", "users", name)["tags"]
    call("PUT", "users", name, body={"password": _password(given), "tags": _joined(tags)})


def _set_user_tags(given: Given) -> None:
    user = call("GET", "users", given.user)  # a PUT without a password takes it away
    password = {key: user[key] for key in ("password_hash", "hashing_algorithm")}
    call("PUT", "users", user["name"], body={**password, "tags": ",".join(given.arguments[1:])})


def _joined(tags: str | list[str]) -> str:
    return tags if isinstance(tags, str) else ",".join(tags)


def _delete_vhost(given: Given) -> None:
    call("DELETE", "vhosts", given._replace(options={"vhost": given.arguments[0]}).vhost)


def _set_permissions(given: Given) -> None:
    _, configure, write, read = given.arguments
    body = {"configure": configure, "write": write, "read": read}
    call("PUT", "permissions", given.vhost, given.user, body=body)


def _set_topic_permissions(given: Given) -> None:
    _, exchange, write, read = given.arguments
    body = {"exchange": exchange, "write": write, "read": read}
    call("PUT", "topic-permissions", given.vhost, given.user, body=body)


def _clear(kind: str) -> Callable[[Given], None]:
    """Return what takes permissions of that kind from a user; that there are none is no error."""

    def clear(given: Given) -> None:
        try:
            call("DELETE", kind, given.options.get("vhost", "/"), given.arguments[0])
        except Refused as error:
            if error.status != 404:
                raise

    return clear


# Policies and definitions


def _set_policy(given: Given) -> None:
    name, pattern, definition = given.arguments
    try:
        body = {"pattern": pattern, "definition": json.loads(definition)}
        body["priority"] = int(given.options.get("priority", "0"))
    except ValueError as error:
        raise CommandError(f"a definition is JSON, and a priority a whole number: {error}", BAD_DATA) from error
    body["apply-to"] = given.options.get("apply-to", "all")
    call("PUT", "policies", given.vhost, name, body=body)


def _clear_policy(given: Given) -> None:
    vhost = given.vhost
    if not _exists("policies", vhost, given.arguments[0]):
        raise CommandError("Parameter does not exist", UNAVAILABLE)
    call("DELETE", "policies", vhost, given.arguments[0])


def _export_definitions(given: Given) -> None:
    text = json.dumps(call("GET", "definitions"))
    if given.arguments[0] == "-":
        print(text)
    else:
        Path(given.arguments[0]).write_text(text + "\n")


def _import_definitions(given: Given) -> None:
    source = given.arguments[0] if given.arguments else "-"
    try:
        document = json.loads(sys.stdin.read() if source == "-" else Path(source).read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read definitions from {source}: {error}", BAD_DATA) from error
    call("POST", "definitions", body=document)


# Lists


class Listing(NamedTuple):
    """A list: the path of its rows, its columns (those up to ``|`` by default), and names that the API has not."""

    path: Callable[[Given], Sequence[str]]
    columns: str
    fields: Mapping[str, str] = {}

    def shown(self, given: Given) -> list[str]:
        """Return the columns asked for. Raises ``CommandError`` for one that there is not."""
        usual, _, more = self.columns.partition("|")
        known = [*usual.split(), *more.split()]
        for name in given.arguments:
            if name not in known and "|" in self.columns:
                raise CommandError(f"Info key(s) {name} are not supported; {_nearest(name, known)}", USAGE)
        return list(given.arguments) if given.arguments and more else usual.split()

    def rows(self, given: Given) -> Iterator[list[Any]]:
        """Yield the values of the columns asked for."""
        columns, path = self.shown(given), self.path(given)
        try:
            rows = call("GET", *path)
        except Refused as error:
            if error.status != 404:
                raise
            rows = []  # RabbitMQ lists nothing in a virtual host that there is not
        for row in rows:
            yield [
                row.get(self.fields.get(name, name), "exchange" if name == "source_kind" else "") for name in columns
            ]


def _in_vhost(kind: str) -> Callable[[Given], Sequence[str]]:
    return lambda given: (kind, given.options.get("vhost", "/"))


_LISTINGS = {
    "list_queues": Listing(
        _in_vhost("queues"),
        "name messages | durable auto_delete exclusive arguments policy type state consumers messages_ready"
        " messages_unacknowledged message_bytes",
    ),
    "list_exchanges": Listing(
        _in_vhost("exchanges"), "name type | durable auto_delete internal arguments policy user_who_performed_action"
    ),
    "list_bindings": Listing(
        _in_vhost("bindings"),
        "source_name source_kind destination_name destination_kind routing_key arguments | vhost",
        {"source_name": "source", "destination_name": "destination", "destination_kind": "destination_type"},
    ),
    "list_policies": Listing(
        lambda given: ("policies", given.vhost), "vhost name pattern apply-to definition priority"
    ),
    "list_permissions": Listing(lambda given: ("vhosts", given.vhost, "permissions"), "user configure write read"),
    "list_user_permissions": Listing(lambda given: ("users", given.user, "permissions"), "vhost configure write read"),
    "list_users": Listing(lambda _: ("users",), "user tags", {"user": "name"}),
    "list_vhosts": Listing(lambda _: ("vhosts",), "name | tracing default_queue_type description"),
    # A connection of the simulator is known by its name; close_connection takes it.
    "list_connections": Listing(
        lambda _: ("connections",),
        "user peer_host peer_port state | name pid vhost protocol channels port host timeout frame_max channel_max"
        " client_properties connected_at",
        {"pid": "name"},
    ),
}


def _print_list(listing: Listing, given: Given) -> None:
    columns, rows = listing.shown(given), list(listing.rows(given))
    if given.options.get("formatter") == "json":
        print(json.dumps([dict(zip(columns, row, strict=True)) for row in rows]))
        return
    if rows and not {"no-table-headers", "silent"} & given.options.keys():
        print(*columns, sep="\t")
    for row in rows:
        print(*(_cell(name, value) for name, value in zip(columns, row, strict=True)), sep="\t")


def _cell(column: str, value: Any) -> str:
    """Write a value as a table has it: tags in brackets, a policy's definition as JSON, arguments as Erlang's terms."""
    if column == "tags":
        return f"[{', '.join(filter(None, _joined(value).split(',')))}]"
    if column == "definition":
        return json.dumps(value, separators=(",", ":"))
    return value if isinstance(value, str) else "" if value is None else _term(value)


def _term(value: Any) -> str:
    if isinstance(value, dict):
        return f"[{','.join(f'{{{_term(key)},{_term(each)}}}' for key, each in sorted(value.items()))}]"
    return f"[{','.join(map(_term, value))}]" if isinstance(value, list) else json.dumps(value)


# The node


def _await(given: Given) -> None:
    give_up = time.monotonic() + float(given.options.get("timeout", _AWAIT_S))
    while True:
        try:
            call("GET", "overview")
            return
        except CommandError:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.1)


def _status(given: Given) -> None:
    found = call("GET", "overview")
    shown = {
        "RabbitMQ version": found["rabbitmq_version"],
        "Node name": found["node"],
        "Simulated by": "dlx, which has no Erlang, no data directory and no other nodes",
        "Alarms": ", ".join(_alarms()) or "(none)",
        "Listeners": ", ".join(f"{protocol} {port}" for protocol, port in _listeners(found)),
    }
    if given.options.get("formatter") == "json":
        print(json.dumps({"rabbitmq_version": found["rabbitmq_version"], "alarms": _alarms()}))
        return
    for name, value in shown.items():
        print(f"{name}: {value}")


def _version(given: Given) -> None:
    print(call("GET", "overview")["rabbitmq_version"])


def _ping(given: Given) -> None:
    call("GET", "overview")
    print("Ping succeeded")


def _running(given: Given) -> None:
    print(f"RabbitMQ on node {call('GET', 'overview')['node']} is fully booted and running")


def _alarms() -> list[str]:
    return [name for node in call("GET", "nodes") for name in ("mem_alarm", "disk_free_alarm") if node.get(name)]


def _check_alarms(given: Given) -> None:
    if alarms := _alarms():
        raise CommandError(f"the node has alarms: {', '.join(alarms)}", UNAVAILABLE)
    print("The node reported no alarms")


def _listeners(overview: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(each["protocol"], each["port"]) for each in overview["listeners"] if each["protocol"] != "clustering"]


def _print_listeners(given: Given) -> None:
    for protocol, port in _listeners(call("GET", "overview")):
        print(f"Interface: [::], port: {port}, protocol: {protocol}")


def _check_ports(given: Given) -> None:
    host = urlsplit(_node()["url"]).hostname or "127.0.0.1"
    ports = [port for _, port in _listeners(call("GET", "overview"))]
    for port in ports:
        try:
            socket.create_connection((host, port), 10).close()
        except OSError as error:
            raise CommandError(f"cannot connect to port {port}: {error}", UNAVAILABLE) from error
    print(f"Successfully connected to ports {', '.join(map(str, ports))}")


def _check_listener(given: Given) -> None:
    port, ports = given.arguments[0], [str(port) for _, port in _listeners(call("GET", "overview"))]
    if port not in ports:
        text = f"No listener for port {port} is active. Found listeners that use the following ports: "
        raise CommandError(text + ", ".join(ports), UNAVAILABLE)
    print(f"A listener for port {port} is running.")


def _stop(given: Given) -> None:
    pid = _node().get("pid")
    if pid is None:
        raise CommandError("the node at $DLX_MANAGEMENT_URL can only be stopped where it was started", UNAVAILABLE)
    os.kill(pid, signal.SIGTERM)


def _change_plugins(given: Given) -> None:
    others = [name for name in given.arguments if name not in _PLUGINS]
    print(f"The plugins {', '.join(_PLUGINS)} are always on.", file=sys.stderr)
    if others:
        print(f"Not simulated, so nothing changed: {', '.join(others)}", file=sys.stderr)


def _print_plugins(given: Given) -> None:
    for name in _PLUGINS:
        print(name)


def _change_nothing(given: Given) -> None:
    print("Not simulated, so nothing changed: feature flags", file=sys.stderr)


class Command(NamedTuple):
    """What a command takes, what it says first (unless it is told to be quiet), and what it does."""

    takes: str
    says: str
    run: Callable[[Given], None]


def _list(name: str, takes: str, says: str) -> Command:
    return Command(takes, says, lambda given: _print_list(_LISTINGS[name], given))


def _traced(active: bool) -> Callable[[Given], None]:
    def trace(given: Given) -> None:
        call("PUT", "vhosts", given.vhost, body={"tracing": active})
        print(f"Trace {'enabled' if active else 'disabled'} for vhost {given.vhost}")

    return trace


def _close(given: Given) -> None:
    call("DELETE", "connections", given.arguments[0], reason=given.arguments[1])


COMMANDS: dict[str, Command] = {
    "add_user": Command("USER [PASSWORD]", 'Adding user "{0}" ...', _add_user),
    "delete_user": Command("USER", 'Deleting user "{0}" ...', _delete_user),
    "change_password": Command("USER [PASSWORD]", 'Changing password for user "{0}" ...', _change_password),
    "set_user_tags": Command("USER [TAG...]", 'Setting tags for user "{0}" to [{rest}] ...', _set_user_tags),
    "list_users": _list("list_users", "", "Listing users ..."),
    "add_vhost": Command("VHOST", 'Adding vhost "{0}" ...', lambda given: call("PUT", "vhosts", given.arguments[0])),
    "delete_vhost": Command("VHOST", 'Deleting vhost "{0}" ...', _delete_vhost),
    "list_vhosts": _list("list_vhosts", "[COLUMN...]", "Listing vhosts ..."),
    "set_permissions": Command(
        "USER CONFIGURE WRITE READ", 'Setting permissions for user "{0}" in vhost "{vhost}" ...', _set_permissions
    ),
    "clear_permissions": Command(
        "USER", 'Clearing permissions for user "{0}" in vhost "{vhost}" ...', _clear("permissions")
    ),
    "list_permissions": _list("list_permissions", "", 'Listing permissions for vhost "{vhost}" ...'),
    "list_user_permissions": _list("list_user_permissions", "USER", 'Listing permissions for user "{0}" ...'),
    "set_topic_permissions": Command(
        "USER EXCHANGE WRITE READ",
        'Setting topic permissions on "{1}" for user "{0}" in vhost "{vhost}" ...',
        _set_topic_permissions,
    ),
    "clear_topic_permissions": Command(
        "USER", 'Clearing topic permissions for user "{0}" in vhost "{vhost}" ...', _clear("topic-permissions")
    ),
    "set_policy": Command(
        "NAME PATTERN DEFINITION",
        'Setting policy "{0}" for pattern "{1}" to "{2}" with priority "{priority}" for vhost "{vhost}" ...',
        _set_policy,
    ),
    "clear_policy": Command("NAME", 'Clearing policy "{0}" on vhost "{vhost}" ...', _clear_policy),
    "list_policies": _list("list_policies", "", 'Listing policies for vhost "{vhost}" ...'),
    "list_queues": _list(
        "list_queues", "[COLUMN...]", "Timeout: {timeout} seconds ...\nListing queues for vhost {vhost} ..."
    ),
    "list_exchanges": _list("list_exchanges", "[COLUMN...]", "Listing exchanges for vhost {vhost} ..."),
    "list_bindings": _list("list_bindings", "[COLUMN...]", "Listing bindings for vhost {vhost}..."),
    "list_connections": _list("list_connections", "[COLUMN...]", "Listing connections ..."),
    "close_connection": Command("CONNECTION REASON", "Closing connection {0}, reason: {1}...", _close),
    "import_definitions": Command("[FILE]", "Importing definitions in JSON ...", _import_definitions),
    "export_definitions": Command("FILE", 'Exporting definitions in JSON to a file at "{0}" ...', _export_definitions),
    "trace_on": Command("", 'Starting tracing for vhost "{vhost}" ...', _traced(True)),
    "trace_off": Command("", 'Stopping tracing for vhost "{vhost}" ...', _traced(False)),
    "await_startup": Command("", "", _await),
    "await_online_nodes": Command("COUNT", "", _await),
    "wait": Command("[PIDFILE]", "", _await),
    "ping": Command("", "", _ping),
    "status": Command("", "", _status),
    "version": Command("", "", _version),
    "server_version": Command("", "", _version),
    "is_running": Command("", "", _running),
    "check_running": Command("", "", _running),
    "check_alarms": Command("", "", _check_alarms),
    "check_local_alarms": Command("", "", _check_alarms),
    "check_virtual_hosts": Command("", "", _running),
    "check_port_connectivity": Command("", "", _check_ports),
    "check_port_listener": Command("PORT", "", _check_listener),
    "listeners": Command("", "", _print_listeners),
    "stop": Command("[PIDFILE]", "Stopping and halting the node ...", _stop),
    "shutdown": Command("", "Shutting down the node ...", _stop),
    "enable": Command("PLUGIN...", "", _change_plugins),
    "disable": Command("PLUGIN...", "", _change_plugins),
    "list": Command("[PATTERN]", "", _print_plugins),
    "enable_feature_flag": Command("FLAG...", "", _change_nothing),
}

_SHORT = {"p": "vhost", "n": "node", "t": "timeout", "q": "quiet", "s": "silent", "l": "longnames", "C": "config"}
_WITH_VALUE = {"vhost", "node", "timeout", "config", "priority", "apply-to", "formatter", "format", "pid"}
# What the tools take and no command here needs.
_WITHOUT_VALUE = {"quiet", "silent", "longnames", "no-table-headers", "offline", "online", "local", "all"}
_WITHOUT_VALUE |= {"enabled", "minimal"}
_SHORT |= {"e": "enabled", "E": "enabled", "m": "minimal"}


def read(words: Sequence[str]) -> tuple[str, Given]:
    """Return the command and what it was given. Raises ``CommandError``."""
    options: dict[str, str] = {}
    plain: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            plain += left
        elif len(word) < 2 or word[0] != "-":
            plain.append(word)
        else:
            name, equals, value = word.removeprefix("--").partition("=")
            name = name if word.startswith("--") else _SHORT.get(word[1:], word)
            if name in _WITH_VALUE:
                options[name] = value if equals else next(left, "")
            elif name in _WITHOUT_VALUE:
                options[name] = ""
            else:
                known = [f"--{each}" for each in sorted(_WITH_VALUE | _WITHOUT_VALUE)]
                raise CommandError(f"no option '{word}'; {_nearest(word, known)}", USAGE)
    if not plain:
        raise CommandError(f"name a command: {', '.join(COMMANDS)}", USAGE)
    if plain[0] not in COMMANDS:
        raise CommandError(f"Command '{plain[0]}' not found here; {_nearest(plain[0], [*COMMANDS])}", USAGE)
    return plain[0], Given(plain[1:], options)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}"


def _check_count(name: str, given: Given) -> None:
    takes = COMMANDS[name].takes.split()
    least = sum(not word.startswith("[") for word in takes)
    most = len(takes) if not COMMANDS[name].takes.rstrip("]").endswith("...") else len(given.arguments)
    if not least <= len(given.arguments) <= max(most, least):
        takes_text = COMMANDS[name].takes or "no arguments"
        raise CommandError(f"{name} takes {takes_text}; it was given {len(given.arguments)}", USAGE)


def main(words: Sequence[str]) -> int:
    """Run a command, and return its exit code."""
    try:
        name, given = read(words)
        _check_count(name, given)
        command = COMMANDS[name]
        for_a_program = "-" in given.arguments or given.options.get("formatter") == "json"
        if command.says and not for_a_program and not given.quiet:
            told = {"vhost": "/", "priority": "0", "timeout": "60.0"} | dict(given.options)
            print(command.says.format(*given.arguments, rest=", ".join(given.arguments[1:]), **told), flush=True)
        command.run(given)
    except CommandError as error:
        print(f"{error}" if error.code == BAD_DATA else f"Error:\n{error}", file=sys.stderr)
        return error.code
    except Refused as error:
        print(f"Error:\n{error.reason()}", file=sys.stderr)
        return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
