"""Records what applications do with a running RabbitMQ: by polls of its management API, its events and its firehose.

Without being told to, it turns nothing on; what it therefore could not see, the recording says. It declares
nothing on the server but exclusive queues of its own, for the events and for the firehose.
"""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from dlx.releases import DEFAULT, known_release, release
from simulator.capture.access import credentials
from simulator.capture.capture_errors import CaptureError, CaptureUnavailable
from simulator.capture.connected import connected, exact_values
from simulator.capture.firehose import CaptureLimits, read_firehose
from simulator.capture.journal import CaptureFile
from simulator.capture.live import tracing
from simulator.capture.management_api import ManagementError, call, server_of
from simulator.capture.schema import Observation
from simulator.capture.server_definitions import definitions_on
from simulator.definitions.secrets import redacted
from simulator.record.recording import (
    FORMAT,
    NOT_PUBLISHED,
    SECTIONS,
    TRACE,
    Recording,
    document_of,
    prepare_folder,
    write_recording,
)
from simulator.record.server_objects import EVENT_EXCHANGE, Poll, ServerObjects
from simulator.record.server_traffic import ServerTraffic
from simulator.server.management.management_releases import api_of

POLL_SECONDS = 1.0
COUNTED_SECONDS = 5
"""How often a server takes its counters, unless it is set otherwise."""
_STOP_SECONDS = 0.1
_EVENTS_IDLE_SECONDS = 0.1
_MANAGEMENT_OFFSET = 10_000  # RabbitMQ's own habit: AMQP at 5672, management at 15672
_USERS = ("users", "permissions", "topic_permissions", "explanation")
_NEVER_SEEN = (
    "which connection declared what is not exclusive, and how often what was there already",
    "what the server refused to clients",
    "whether a delivery that came again was requeued or its channel was lost",
    "rejected deliveries whose dead letter nobody took, or that look the same, and dead letters that were lost",
    "whether a publisher declared a queue right before it published to it",
    f"what the server counted in the last {COUNTED_SECONDS} s: acknowledgements, polls by basic.get, returned messages",
)
_SWITCHED_OFF = "the firehose was off, which somebody else switched off, such as another recording that ended"
_NEVER_TRACED = (
    "which publishes were mandatory, beyond those that came back",
    "which publishes a full queue refused",
)


def record_server(
    url: str,
    folder: str | os.PathLike[str],
    *,
    seconds: float | None = None,
    vhost: str | None = None,
    enable: bool = False,
    amqp_url: str | None = None,
    poll_seconds: float = POLL_SECONDS,
    stop: Callable[[], bool] = bool,
    on_poll: Callable[[], object] = lambda: None,
    progress: Callable[[str, int], object] = lambda what, messages: None,
) -> Recording:
    """Record a running server into a folder, and return the recording.

    It ends after ``seconds``, when ``stop`` says so (asked several times a second), with ``KeyboardInterrupt``, and
    when the server goes away; what there is by then is written.

    Args:
        url: of the management API, such as ``http://guest:guest@localhost:15672``.
        folder: where the recording is written; an earlier recording there is replaced.
        vhost: the only virtual host that counts; all that the user may see by default.
        enable: switch tracing on while it records. Without ``vhost`` the user must see but one virtual host.
        amqp_url: where the events and the firehose are; by default where the management API says.
        poll_seconds: how long to wait between polls.
        on_poll: called after each poll.
        progress: called with the current task and the number of messages so far.

    Raises:
        CaptureUnavailable: the management API does not answer or refuses, or tracing cannot be switched on.
        CaptureError: the trace cannot be written, or ``enable`` needs a virtual host.
        OSError: the folder cannot be written.
    """
    where = (url, Path(folder), vhost, amqp_url)
    return _ServerRecorder(*where, seconds, poll_seconds, stop, on_poll, progress).record(enable=enable)


class _ServerRecorder:
    """Records one server. The arguments are those of ``record_server``."""

    def __init__(
        self,
        url: str,
        folder: Path,
        vhost: str | None,
        amqp_url: str | None,
        seconds: float | None,
        poll_seconds: float,
        stop: Callable[[], bool],
        on_poll: Callable[[], object],
        progress: Callable[[str, int], object],
    ) -> None:
        self._url, self._folder = url, folder
        self._seconds, self._poll_seconds = seconds, poll_seconds
        self._stop, self._on_poll, self._progress = stop, on_poll, progress
        overview = self._asked("overview")
        version = str(overview.get("rabbitmq_version", ""))
        self.recording = Recording(
            format=FORMAT,
            of=server_of(url),
            release=".".join(version.split(".")[:2]),
            began_us=_now_us(),
            not_seen=[*_NEVER_SEEN],
        )
        tags = self._asked("whoami").get("tags", [])
        self._tags = tags.split(",") if isinstance(tags, str) else tags
        self._vhost = vhost
        self._vhosts = self._visible_vhosts()
        self._traced: list[str] = []  # the virtual hosts whose firehose is read
        own = f"dlx record {uuid.uuid4().hex[:12]}"
        self._amqp_url = _named(amqp_url or _amqp_url(url, overview), own)
        self._objects = ServerObjects(vhost, own)
        self._traffic = ServerTraffic(self._objects)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._own_queues: set[str] = set()
        self._threads: list[threading.Thread] = []
        self._rows = 0
        self._trace: CaptureFile | None = None
        self._failure: OSError | None = None
        self._gone = False
        self._switched: ExitStack | None = None  # where it switches tracing on, and off again
        self._left_on = False
        self._seen_on = ""  # when tracing was last seen to be on
        self._off_since: dict[str, str] = {}
        self._unread: list[str] = []  # virtual hosts whose firehose could not be read

    def _visible_vhosts(self) -> list[Mapping[str, Any]]:
        """Return those that count. Raises ``CaptureUnavailable`` where the user may not see the one that was named."""
        found = self._asked("vhosts")
        if self._vhost is None:
            return list(found)
        for each in found:
            if each["name"] == self._vhost:
                return [each]
        there = ", ".join(str(each["name"]) for each in found)
        raise CaptureUnavailable(self.recording.of, f"no virtual host {self._vhost!r} for this user; there is {there}")

    def record(self, *, enable: bool) -> Recording:
        names = [str(each["name"]) for each in self._vhosts]
        if enable and len(names) != 1:
            raise CaptureError(self.recording.of, f"tracing one virtual host: expected which one of {', '.join(names)}")
        if enable and "administrator" not in self._tags:
            command = f"`rabbitmqctl trace_on -p {shlex.quote(names[0])}` switches it on"
            problem = (
                f"only an administrator may have tracing of {names[0]} switched on, which this user is not; {command}"
            )
            raise CaptureUnavailable(self.recording.of, problem)
        rest = self._definitions()
        prepare_folder(self._folder)
        self._trace = CaptureFile(self._folder / TRACE)
        try:
            with ExitStack() as switched, exact_values():
                if enable:
                    self._switched = switched
                    self._left_on = switched.enter_context(tracing(self._url, names[0]))
                self._seen_on = _clock_time()
                self._traced += [str(each["name"]) for each in self._vhosts if enable or each.get("tracing")]
                try:
                    for name in [*self._traced]:
                        self._start(partial(self._read_trace, name))
                    self._start(self._read_events_there)
                    self._go_on()
                except KeyboardInterrupt:
                    pass
                finally:
                    self._ended.set()
                    for thread in self._threads:
                        thread.join()
                self._polled_again()
        except CaptureUnavailable as error:  # tracing could not be switched on, or not off again
            if not self._ended.is_set():
                raise
            command = f"rabbitmqctl trace_off -p {shlex.quote(names[0])}"
            self._unseen(f"whether tracing of {names[0]} is off again ({error}): `{command}` switches it off")
        finally:
            self._trace.close()
        self._finish(rest, names)
        if self._failure is not None:
            raise CaptureError(os.fspath(self._trace.path), f"cannot be written: {self._failure}") from self._failure
        return self.recording

    # What it asks

    def _asked(self, path: str) -> Any:
        try:
            return call(self._url, path) or []
        except ManagementError as error:
            refused = "wrong user or password, or the user has no tag 'management'"
            known = {401: refused, 404: f"no such virtual host, or no management API: {path}"}
            raise CaptureUnavailable(server_of(self._url), known.get(error.status, str(error))) from error
        except (OSError, ValueError) as error:
            raise CaptureUnavailable(server_of(self._url), f"management API: no answer: {error}") from error

    def _poll(self) -> None:
        at_us = _now_us()
        below = "" if self._vhost is None else f"/{quote(self._vhost, safe='')}"
        of_vhost = "" if self._vhost is None else f"vhosts{below}/"
        columns = "name,vhost,durable,auto_delete,exclusive,arguments,messages,messages_dlx,message_stats"
        poll = Poll(
            at_us=at_us,
            queues=self._asked(f"queues{below}?columns={columns}"),
            exchanges=self._asked(f"exchanges{below}?columns=name,vhost,type,durable,auto_delete,internal,arguments"),
            bindings=self._asked(f"bindings{below}"),
            connections=self._asked(f"{of_vhost}connections"),
            channels=self._asked(f"{of_vhost}channels?columns=name,confirm,message_stats"),
            consumers=self._asked(f"consumers{below}"),
        )
        with self._lock:
            self._objects.polled(poll)

    def _go_on(self) -> None:
        """Poll until it is over, or the server goes away."""
        began = time.monotonic()
        while self._polled_again():
            self._on_poll()
            polled = time.monotonic()
            while (now := time.monotonic()) < polled + self._poll_seconds:
                self._progress(f"recording {self.recording.of}", self._rows)
                time_is_up = self._seconds is not None and now >= began + self._seconds
                if self._stop() or time_is_up or self._failure is not None:
                    return
                time.sleep(min(_STOP_SECONDS, self._poll_seconds))

    def _polled_again(self) -> bool:
        """Poll, and return whether the server is still there."""
        if self._gone:
            return False
        try:
            self._poll()
            self._see_tracing()
        except CaptureUnavailable as error:
            self._gone = True
            self._unseen(f"what happened after {_clock_time()}, when the server went away: {error.problem}")
        return not self._gone

    def _see_tracing(self) -> None:
        """Note when somebody switched tracing off, and switch it on again where that was asked for."""
        on = {str(each["name"]): each.get("tracing") for each in self._asked("vhosts")}
        now = _clock_time()
        for name in [each for each in self._traced if each in on]:
            if not on[name]:
                self._off_since.setdefault(name, self._seen_on)
                if self._switched is None or self._ended.is_set():
                    continue
                self._left_on = self._switched.enter_context(tracing(self._url, name))
            if name in self._off_since:
                self._unseen(f"messages in {name} from {self._off_since.pop(name)} to {now}: {_SWITCHED_OFF}")
        self._seen_on = now

    def _definitions(self) -> dict[str, Any]:
        """Return what else the server exports, without users and secrets."""
        try:
            found = definitions_on(self._url)
        except (ManagementError, OSError, ValueError) as error:
            raise CaptureUnavailable(server_of(self._url), f"management API: no definitions: {error}") from error
        for remark in found.remarks(self._url):
            self._unseen(remark)
        exported = dict(json.loads(found.data))
        exported = {key: value for key, value in exported.items() if key not in (*_USERS, *SECTIONS.values())}
        if self._vhost is not None:
            exported = {key: self._of_vhost(key, value) for key, value in exported.items()}
        return redacted(exported)

    def _of_vhost(self, section: str, items: Any) -> Any:
        if not isinstance(items, list):
            return items
        where = "name" if section == "vhosts" else "vhost"
        return [each for each in items if each.get(where, self._vhost) == self._vhost]

    # What it is sent

    def _start(self, read: Callable[[threading.Event], None]) -> None:
        """Have a thread read, and wait until it is ready, or has failed."""
        ready = threading.Event()
        thread = threading.Thread(target=read, args=(ready,), daemon=True)
        self._threads.append(thread)
        thread.start()
        ready.wait()

    def _read_trace(self, vhost: str, ready: threading.Event) -> None:
        limits = CaptureLimits(stop=self._ended.is_set)
        broken = 0

        def count_broken(_: object) -> None:
            nonlocal broken
            broken += 1

        try:
            for row in read_firehose(
                self._amqp_url, vhost=vhost, until=limits, on_ready=ready.set, on_broken=count_broken
            ):
                self._take(row)
        except CaptureUnavailable as error:
            if ready.is_set():
                self._unseen(f"messages in {vhost} after {_clock_time()}, when the firehose ended: {error.problem}")
            else:
                self._traced.remove(vhost)
                self._unread.append(vhost)
                self._unseen(f"messages in {vhost}: its firehose could not be read: AMQP at {error}")
        finally:
            ready.set()
        if broken:
            self._unseen(f"{broken:,} messages of the firehose of {vhost}, which are not traces")

    def _take(self, row: Observation) -> None:
        with self._lock:
            if row.queue in self._own_queues or self._trace is None or self._failure is not None:
                return
            self._rows += 1
            self._traffic.row(row)
            try:
                self._trace.append(msgspec.structs.replace(row, payload=b""))
            except OSError as error:
                self._failure = error

    def _read_events_there(self, ready: threading.Event) -> None:
        """Read the events, if the server has them."""
        between = "what came and went between two polls of the management API"
        try:
            exchanges = self._asked("exchanges?columns=name,vhost")
            vhost = next((each["vhost"] for each in exchanges if each["name"] == EVENT_EXCHANGE), None)
            if vhost is not None:
                self._read_events(vhost, ready)
            else:
                command = "rabbitmq-plugins enable rabbitmq_event_exchange"
                self._unseen(f"{between}: this user sees no exchange of events; `{command}` makes one")
        except CaptureUnavailable as error:
            self._unseen(f"{between}, from {_clock_time()}: the events could not be read: {error}")
        finally:
            ready.set()

    def _read_events(self, vhost: str, ready: threading.Event) -> None:
        with connected(self._amqp_url, vhost) as (connection, _):
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True, auto_delete=True).method.queue
            self._own_queues.add(queue)
            channel.queue_bind(queue, EVENT_EXCHANGE, "#")
            ready.set()
            for method, properties, _ in channel.consume(queue, auto_ack=True, inactivity_timeout=_EVENTS_IDLE_SECONDS):
                if method is not None:
                    with self._lock:
                        self._objects.event(method.routing_key, properties.headers or {})
                if self._ended.is_set():
                    return

    # What it says

    def _unseen(self, clause: str) -> None:
        self.recording.not_seen.append(clause)

    def _finish(self, rest: Mapping[str, Any], names: list[str]) -> None:
        recording = self.recording
        self._traffic.finish(recording)
        self._objects.finish(recording, traced=self._traced)
        if self._traced:
            recording.not_seen += _NEVER_TRACED
        for name, since in self._off_since.items():
            self._unseen(f"messages in {name} after {since}: {_SWITCHED_OFF}")
        if self._left_on:
            command = f"rabbitmqctl trace_off -p {shlex.quote(names[0])}"
            self._unseen(f"who switched tracing of {names[0]} on: it was on already, and it stays on ({command})")
        untraced = [name for name in names if name not in (*self._traced, *self._unread)]
        if untraced:
            shown = ", ".join(untraced)
            recording.not_seen.append(
                f"{NOT_PUBLISHED} {shown}, and its keys, headers and expirations: the firehose was off; --enable "
                f"switches it on while it records, `rabbitmqctl trace_on -p {shlex.quote(untraced[0])}` for good"
            )
        if not api_of(release(known_release(recording.release) or DEFAULT)).nothings_counted:
            self._unseen(f"polls by basic.get that found nothing: RabbitMQ {recording.release} does not count them")
        if unknown := self._traffic.unknown_confirms():
            recording.not_seen.append(
                f"whether {unknown:,} publishes were confirmed: the server never counted their channels"
            )
        if not {"administrator", "monitoring"} & {*self._tags}:
            recording.not_seen.append("connections and channels of other users: this user has no tag 'monitoring'")
        recording.ended_us = _now_us()
        write_recording(self._folder, recording, document_of(recording, rest))


def _amqp_url(url: str, overview: Mapping[str, Any]) -> str:
    """Return where the server takes AMQP: at the port that it names, or that RabbitMQ usually has."""
    parts = urlsplit(url)
    ports = {each["protocol"]: each["port"] for each in overview.get("listeners") or []}
    secure = parts.scheme == "https" or (bool(ports) and "amqp" not in ports)
    if secure and "amqp" in ports and "amqp/ssl" not in ports:
        raise CaptureError(server_of(url), "the server takes AMQP without TLS alone: where? Give it with --amqp-url")
    port = ports.get("amqp/ssl" if secure else "amqp")
    if port is None:
        usual = 5671 if secure else 5672
        port = parts.port - _MANAGEMENT_OFFSET if parts.port and parts.port > _MANAGEMENT_OFFSET else usual
    user, password = (quote(each, safe="") for each in credentials(url))
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    query = f"?{parts.query}" if parts.query else ""
    return f"{'amqps' if secure else 'amqp'}://{user}:{password}@{host}:{port}/{query}"


def _named(amqp_url: str, name: str) -> str:
    """Return the URL with the name that its connections have on the server."""
    separator = "&" if urlsplit(amqp_url).query else "?"
    return f"{amqp_url}{separator}{urlencode({'client_properties': json.dumps({'connection_name': name})})}"


def _now_us() -> int:
    return time.time_ns() // 1000


def _clock_time() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S UTC")
