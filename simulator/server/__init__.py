"""RabbitMQ for real clients: an AMQP 0-9-1 server and the management API over ``simulator.broker``.

In a process of its own it is ``dlx serve``. In a test it is

    with simulator.serve("4.3") as server:
        connection = pika.BlockingConnection(pika.URLParameters(server.amqp_url))
        ...
        server.clock.advance(hours=24)

When the server stops, its state is gone, except for what ``server.snapshot()`` returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from dlx.releases import DEFAULT

if TYPE_CHECKING:
    from simulator.bootstrap import DefinitionsSource
    from simulator.server.in_process import Server
    from simulator.server.tls import Tls


def serve(
    release: str = DEFAULT,
    *,
    definitions: DefinitionsSource | None = None,
    users: Mapping[str, str] | None = None,
    plugins: Iterable[str] | None = None,
    clock: Literal["virtual", "wall"] = "virtual",
    rate: float = 0,
    start_us: int | None = None,
    snapshot: bytes | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    management_port: int | None = None,
    metrics_port: int | None = None,
    memory_limit_bytes: int = 1 << 30,
    send_timeout_s: float = 30,
    tls: bool | Tls = False,
) -> Server:
    """Start a server in a thread of this process. Use it as a context manager, or ``stop()`` it.

    Args:
        release: the release of RabbitMQ to simulate, from ``3.8`` to ``4.3``.
        definitions: an exported definitions document to start with, or the file that holds one.
        users: passwords by name, of administrators; instead of guest with the password guest.
        plugins: the plugins that are enabled besides those that the definitions need: ``delayed``,
            ``consistent-hash``, ``random``, ``recent-history``, ``sharding``, ``shovel``, ``jms-topic``,
            ``federation``, ``event``, or RabbitMQ's own names; no released version of ``delayed`` starts on a real
            4.3. With a snapshot: those that are enabled from then on,
            by default as before.
        clock: ``virtual`` time stands still until ``server.clock`` moves it; ``wall`` is real time.
        rate: makes virtual time run by itself, that many times faster than real time.
        start_us: when virtual time begins, microseconds since 1970; by default now.
        snapshot: a state that ``server.snapshot()`` returned, to go on with, at its time; instead of release,
            definitions and users.
        host: the address where AMQP listens.
        port: the port where AMQP listens; 0 takes a free one.
        management_port: where the management API listens, 0 for a free port; by default it does not. With it,
            the server records what happens to messages (``/api/histories``).
        metrics_port: where the metrics are served for Prometheus (``/metrics``), 0 for a free port; by default only
            beside the management API.
        memory_limit_bytes: publishers must wait while the queues hold more.
        send_timeout_s: a client that takes none of the bytes sent to it for this long, in wall time, is reset,
            though it may send heartbeats; RabbitMQ's bound is 30.
        tls: ``True`` has it listen with TLS as well (``server.amqps_url``), for the management API too if that has
            a port, with certificates made for it (``server.tls``); a ``simulator.Tls`` says more.

    Returns:
        The server, ready to be connected to.

    Raises:
        UnknownReleaseError: there are no rules for that release.
        UnknownPluginError: there is no such plugin.
        DefinitionsError: the definitions cannot be used.
        OSError: the port is taken, or the host not this machine's.
        ValueError: the snapshot was made by another version of dlx, or is broken.
        TlsError: a certificate or key in ``tls`` cannot be used.
        ModuleNotFoundError: there are no certificates, and trustme, which makes them, is not installed.
    """
    from dlx.server_plugins import named_plugins
    from simulator.bootstrap import start_broker
    from simulator.broker.commands import CloseConnection
    from simulator.clock import VirtualClock, WallClock
    from simulator.server.in_process import Server

    if clock not in ("virtual", "wall"):
        raise ValueError(f"a clock is 'virtual' or 'wall', not {clock!r}")
    time = VirtualClock(start_us, rate) if clock == "virtual" else WallClock()
    if snapshot is None:
        broker = start_broker(
            release, definitions=definitions, users=users, plugins=plugins or (), now_us=time.now_us()
        )
    else:
        from simulator.message_history import RecordingBroker

        broker = RecordingBroker.restore_any(snapshot)
        if plugins is not None:
            broker.enable(named_plugins(plugins))
        if isinstance(time, VirtualClock):
            time.jump(broker.now_us)
        clients = [key for key, connection in broker.connections.items() if not connection.is_shovels]
        for connection in clients:  # they are not here
            broker.handle(CloseConnection(connection), time.now_us())
    if management_port is not None:
        from simulator.message_history import RecordingBroker

        broker = RecordingBroker.taking_over(broker)
    return Server(
        broker,
        time,
        host=host,
        port=port,
        management_port=management_port,
        metrics_port=metrics_port,
        memory_limit_bytes=memory_limit_bytes,
        send_timeout_s=send_timeout_s,
        tls=_tls(tls, management=management_port is not None),
    )


def _tls(asked: bool | Tls, *, management: bool) -> Tls | None:
    """Return how the server uses TLS: with the management API at a free port, if it has a plain one."""
    if asked is False:
        return None
    import msgspec

    from simulator.server.tls import Tls

    tls = Tls() if asked is True else asked
    if management and tls.management_port is None:
        return msgspec.structs.replace(tls, management_port=0)
    return tls
