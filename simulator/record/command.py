"""Runs an application against a simulated broker, in the environment that applications read, and records it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from simulator.broker import Broker
from simulator.clock import Clock
from simulator.message_history import RecordingBroker
from simulator.record.recorder import ApplicationRecorder
from simulator.record.recording import SAVE_S, Recording, prepare_folder
from simulator.server.listeners import Listeners
from simulator.server.node import MEMORY_LIMIT_BYTES, Node

END_S = 10  # for the command to end after SIGINT or SIGTERM
CLOSE_S = 1  # for connections of a command that has ended to be seen closed
USER = PASSWORD = "guest"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FIELD = re.compile(r"\{(\w+)\}")

ENVIRONMENT: Mapping[str, str] = {
    "AMQP_URL": "{amqp_url}",
    "AMQP_URI": "{amqp_url}",
    "RABBITMQ_URL": "{amqp_url}",
    "RABBIT_URL": "{amqp_url}",
    "CLOUDAMQP_URL": "{amqp_url}",
    "BROKER_URL": "{amqp_url}",
    "CELERY_BROKER_URL": "{amqp_url}",
    "RABBITMQ_MANAGEMENT_URL": "{management_url}",
    "RABBITMQ_HOST": "{host}",
    "RABBITMQ_PORT": "{port}",
    "RABBITMQ_USER": "{user}",
    "RABBITMQ_USERNAME": "{user}",
    "RABBITMQ_PASS": "{password}",
    "RABBITMQ_PASSWORD": "{password}",
    "RABBITMQ_VHOST": "{vhost}",
    "SPRING_RABBITMQ_HOST": "{host}",
    "SPRING_RABBITMQ_PORT": "{port}",
    "SPRING_RABBITMQ_USERNAME": "{user}",
    "SPRING_RABBITMQ_PASSWORD": "{password}",
    "SPRING_RABBITMQ_VIRTUAL_HOST": "{vhost}",
    "SPRING_RABBITMQ_ADDRESSES": "{host}:{port}",
}
"""What applications read, and what it is made of: the fields of ``template_fields``."""


def template_fields(amqp_url: str, management_url: str) -> dict[str, str]:
    """Return what a template of the environment may name, for a broker at these URLs (without users)."""
    parts = urlsplit(amqp_url)
    return {
        "amqp_url": f"amqp://{USER}:{PASSWORD}@{parts.netloc}/%2F",
        "management_url": management_url.replace("://", f"://{USER}:{PASSWORD}@", 1),
        "host": parts.hostname or "",
        "port": str(parts.port),
        "user": USER,
        "password": PASSWORD,
        "vhost": "/",
    }


def filled(template: str, fields: Mapping[str, str]) -> str:
    """Return a template with its fields filled in. Raises ``ValueError`` for one that there is not."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in fields:
            there = ", ".join(f"{{{field}}}" for field in fields)
            raise ValueError(f"{template}: there is no {match[0]}; there is {there}")
        return fields[match[1]]

    return _FIELD.sub(value, template)


def check_template(template: str) -> None:
    """Raise ``ValueError`` for a template with a field that there is not, which names the fields."""
    filled(template, template_fields("amqp://localhost:5672/", "http://localhost:15672/"))


class RecordedCommand:
    """A command to be run against a broker of its own.

    Args:
        command: the program and its arguments.
        folder: that of the recording; an earlier recording there is replaced once the broker listens.
        broker, clock: what it runs against.
        port, management_port: where that listens, on this machine; 0 takes a free port.
        environment: templates of further variables, by name; they replace those of ``ENVIRONMENT``.
        seconds: after how many seconds of wall time the command is ended; ``None``: when it ends by itself.
        to_stderr: whether what it prints to standard output goes to standard error.
        on_ready: called with the fields of the templates when the broker is ready.
        on_wait: called when the command was asked to end and has not after a second.

    Attributes:
        cut_off: whether it was ended because its time was over.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        broker: Broker,
        clock: Clock,
        *,
        port: int = 0,
        management_port: int = 0,
        environment: Mapping[str, str] | None = None,
        seconds: float | None = None,
        to_stderr: bool = False,
        on_ready: Callable[[Mapping[str, str]], object] = lambda fields: None,
        on_wait: Callable[[], object] = lambda: None,
    ) -> None:
        self.command = tuple(command)
        self._folder, self._seconds, self._to_stderr, self._on_ready = folder, seconds, to_stderr, on_ready
        self._where = "127.0.0.1", port, management_port
        self._templates = {**ENVIRONMENT, **(environment or {})}
        self._node = Node(RecordingBroker.taking_over(broker), clock, memory_limit_bytes=MEMORY_LIMIT_BYTES)
        self.cut_off = False
        self._on_wait = on_wait
        self._stop, self._kill = asyncio.Event(), asyncio.Event()
        self._told = False
        self._own_group = sys.stdin is None or not sys.stdin.isatty()  # else it could not read the terminal

    async def record(self) -> Recording:
        """Run the command to its end, and return the recording, which is in the folder by then.

        Raises:
            OSError: a port is taken, the command cannot be run, or the folder not be written.
            RecordingError: something else is in the folder.
            CaptureError: the trace cannot be written.
        """
        loop = asyncio.get_running_loop()
        node = self._node
        node.run_in(loop)
        listeners = await Listeners.start(node, *self._where)
        try:
            prepare_folder(self._folder)
            recorder = ApplicationRecorder(node, self._folder, self.command[:1])  # arguments may be secrets
        except BaseException:
            await listeners.stop()
            raise
        exit_code = None
        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
                loop.add_signal_handler(number, self._end, number)
        saving = asyncio.create_task(_save_again_and_again(recorder))
        try:
            assert listeners.amqp_url is not None
            fields = template_fields(listeners.amqp_url, listeners.management_url or "")
            self._on_ready(fields)
            exit_code = await self._run(fields)
        finally:
            saving.cancel()
            for number in _ENDING:
                loop.remove_signal_handler(number)
            await self._connections_closed()
            recorder.stop(exit_code)
            await listeners.stop()
        return recorder.recording

    def _end(self, number: int) -> None:
        """Have the command end; the second time, at once. On a terminal it has had its own SIGINT already."""
        self._told = self._told or (number == signal.SIGINT and not self._own_group)
        (self._kill if self._stop.is_set() else self._stop).set()

    async def _run(self, fields: Mapping[str, str]) -> int:
        """Run the command; return its exit code, as shells count that of one which a signal ended."""
        environment = os.environ | {name: filled(text, fields) for name, text in self._templates.items()}
        own_group = self._own_group
        process = await asyncio.create_subprocess_exec(
            *self.command,
            env=environment,
            stdout=sys.stderr.fileno() if self._to_stderr else None,
            start_new_session=own_group,
        )
        ended = asyncio.create_task(process.wait())
        stopped, killed = asyncio.create_task(self._stop.wait()), asyncio.create_task(self._kill.wait())
        await asyncio.wait({ended, stopped}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        self.cut_off = not ended.done() and not stopped.done()
        if not ended.done() and not self._told:
            _signal(process, signal.SIGTERM, group=own_group)
        if not ended.done():
            await asyncio.wait({ended}, timeout=1)
        if not ended.done():
            self._on_wait()
            await asyncio.wait({ended, killed}, timeout=END_S, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            _signal(process, signal.SIGKILL, group=own_group)
        for task in (stopped, killed):
            task.cancel()
        code = await ended
        if own_group:
            _signal(process, signal.SIGKILL, group=True)  # what it started and left behind
        return 128 - code if code < 0 else code

    async def _connections_closed(self) -> None:
        """Wait until the connections of a command that has ended are closed."""
        until_s = asyncio.get_running_loop().time() + CLOSE_S
        while self._node.connections and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(0.01)
        await self._node.caught_up()


async def _save_again_and_again(recorder: ApplicationRecorder) -> None:
    while True:
        recorder.save()
        await asyncio.sleep(SAVE_S)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals, *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number) if group else process.send_signal(number)
