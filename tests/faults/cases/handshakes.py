"""From ``connection.start`` to ``connection.open``: silence, wrong credentials, wrong methods, wrong numbers."""

from __future__ import annotations

import struct
import time

from pika import spec

from tests.faults.cases.registry import add, case
from tests.faults.wire import BODY, HEADER_091, HEARTBEAT, METHOD, Wire, frame, method, publish


@case("handshake: no start-ok")
def _(wire: Wire) -> None:
    wire.start()


@case("handshake: half a start-ok")
def _(wire: Wire) -> None:
    wire.start()
    wire.send(method(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest"))[:20])


@case("handshake: an octet a second")
def _(wire: Wire) -> None:
    """A slow loris: it says something all the time and is thrown out all the same."""
    began = time.monotonic()
    for octet in HEADER_091 + method(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest"))[:8]:
        wire.send(bytes([octet]))
        time.sleep(0.7)
    wire.waited_s = time.monotonic() - began


@case("handshake: no tune-ok")
def _(wire: Wire) -> None:
    wire.tune()


@case("handshake: no open")
def _(wire: Wire) -> None:
    wire.tune()
    wire.tune_ok()


FAILURE_CLOSE = "authentication_failure_close"
CAPABLE: dict[str, object] = {"capabilities": {FAILURE_CLOSE: True}}


def _login(name: str, mechanism: str, response: bytes, properties: dict[str, object] = CAPABLE) -> None:
    def run(wire: Wire) -> None:
        wire.start()
        wire.start_ok(mechanism, response, properties)

    add(f"login: {name}", run)


_login("wrong password", "PLAIN", b"\0guest\0wrong")
_login("wrong password, no authentication_failure_close", "PLAIN", b"\0guest\0wrong", {})
_login("authentication_failure_close is false", "PLAIN", b"\0guest\0x", {"capabilities": {FAILURE_CLOSE: False}})
_login("unknown user", "PLAIN", b"\0nobody\0guest")
_login("empty password", "PLAIN", b"\0guest\0")
_login("empty user", "PLAIN", b"\0\0guest")
_login("PLAIN with an authorization identity", "PLAIN", b"other\0guest\0guest")
_login("PLAIN without zero octets", "PLAIN", b"guest guest")
_login("PLAIN with one zero octet", "PLAIN", b"\0guest")
_login("PLAIN with a zero octet too many", "PLAIN", b"\0guest\0guest\0")
_login("PLAIN with nothing", "PLAIN", b"")
_login("unknown mechanism", "FOO", b"\0guest\0guest")
_login("unknown mechanism, no authentication_failure_close", "FOO", b"\0guest\0guest", {})
_login("mechanism in small letters", "plain", b"\0guest\0guest")
_login("EXTERNAL", "EXTERNAL", b"")
_login("CRAM-MD5", "CRAM-MD5", b"")
_login("RABBIT-CR-DEMO", "RABBIT-CR-DEMO", b"guest")
_login("ANONYMOUS", "ANONYMOUS", b"")
_login("empty mechanism", "", b"")
_login("AMQPLAIN", "AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest")
_login("AMQPLAIN, wrong password", "AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05wrong")
_login("AMQPLAIN without password", "AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest")
_login("AMQPLAIN, LOGIN a byte array", "AMQPLAIN", b"\x05LOGINx\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest")
_login("AMQPLAIN, PASSWORD a byte array", "AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDx\0\0\0\x05guest")
_login("AMQPLAIN, both byte arrays", "AMQPLAIN", b"\x05LOGINx\0\0\0\x05guest\x08PASSWORDx\0\0\0\x05guest")
_login("AMQPLAIN, LOGIN an integer", "AMQPLAIN", b"\x05LOGINI\0\0\0\x05\x08PASSWORDS\0\0\0\x05guest")
_login("AMQPLAIN, PASSWORD an integer", "AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDI\0\0\0\x05")
_login("AMQPLAIN, unknown user, PASSWORD an integer", "AMQPLAIN", b"\x05LOGINS\0\0\0\x06nobody\x08PASSWORDI\0\0\0\x05")
_login("AMQPLAIN, both integers", "AMQPLAIN", b"\x05LOGINI\0\0\0\x05\x08PASSWORDI\0\0\0\x05")
_login("AMQPLAIN, LOGIN and PASSWORD void", "AMQPLAIN", b"\x05LOGINV\x08PASSWORDV")
_login("AMQPLAIN of garbage", "AMQPLAIN", b"\x05LOGINS\0\0")
_login("capabilities that are no table", "PLAIN", b"\0guest\0guest", {"capabilities": "all"})
_login("password of invalid UTF-8", "PLAIN", b"\0guest\0\xff\xfe")


@case("handshake: another locale")
def _(wire: Wire) -> None:
    wire.start()
    wire.send(method(0, spec.Connection.StartOk(CAPABLE, "PLAIN", "\0guest\0guest", "tlh_QO")))


def _during(name: str, stage: str, octets: bytes) -> None:
    def run(wire: Wire) -> None:
        if stage == "start":
            wire.start()
        else:
            wire.tune()
            if stage == "open":
                wire.tune_ok()
        wire.send(octets)

    add(f"before {stage}-ok: {name}", run)


for _stage in ("start", "tune", "open"):
    _during("heartbeat", _stage, frame(HEARTBEAT, 0, b""))
    _during("channel.open", _stage, method(1, spec.Channel.Open()))
    _during("connection.close", _stage, method(0, spec.Connection.Close(200, "bye", 0, 0)))
    _during("connection.close-ok", _stage, method(0, spec.Connection.CloseOk()))
    _during("body frame on channel 0", _stage, frame(BODY, 0, b"x"))
    _during("unknown frame type", _stage, frame(5, 0, b"x"))
    _during("wrong frame end octet", _stage, frame(HEARTBEAT, 0, b"", end=0))
    _during("unknown method", _stage, frame(METHOD, 0, struct.pack(">HH", 10, 99)))
    _during("protocol header again", _stage, HEADER_091)
    _during("frame larger than may be", _stage, struct.pack(">BHI", METHOD, 0, 131_073) + b"x" * 200)
_during("frame of 4097 octets", "start", frame(METHOD, 0, b"x" * 4089))
_during("frame of 4088 + 8 octets", "start", frame(METHOD, 0, struct.pack(">HH", 10, 11) + bytes(4092)))
_during("tune-ok", "start", method(0, spec.Connection.TuneOk(10, 131072, 0)))
_during("connection.open", "start", method(0, spec.Connection.Open("/")))
_during("connection.open", "tune", method(0, spec.Connection.Open("/")))
_during("start-ok again", "tune", method(0, spec.Connection.StartOk(CAPABLE, "PLAIN", "\0guest\0guest")))
_during("secure-ok", "tune", method(0, spec.Connection.SecureOk("\0guest\0guest")))
_during("start-ok with a broken table", "start", frame(METHOD, 0, b"\0\x0a\0\x0b\0\0\0\x03\x01aZ\x05PLAIN\0\0\0\0\0"))
_during("start-ok cut short", "start", frame(METHOD, 0, b"\0\x0a\0\x0b\0\0\0\0\x05PLA"))


def _tuned(name: str, channel_max: int, frame_max: int, heartbeat: int = 0) -> None:
    def run(wire: Wire) -> None:
        wire.tune()
        wire.tune_ok(channel_max, frame_max, heartbeat)
        wire.send(method(0, spec.Connection.Open(wire.vhost)))
        wire.probe()

    add(f"tune-ok: {name}", run)


_tuned("frame_max larger than offered", 2047, 131073)
_tuned("frame_max 0 (no limit)", 2047, 0)
_tuned("frame_max 4095", 2047, 4095)
_tuned("frame_max 1", 2047, 1)
_tuned("frame_max 4096", 2047, 4096)
_tuned("frame_max 8191", 2047, 8191)
_tuned("channel_max larger than offered", 2048, 131072)
_tuned("channel_max 0 (no limit)", 0, 131072)
_tuned("channel_max 1", 1, 131072)
_tuned("both larger", 65535, 2**32 - 1)
_tuned("heartbeat larger than offered", 2047, 131072, 65535)


def _vhost(name: str, vhost: bytes, rest: bytes = b"\0\0") -> None:
    def run(wire: Wire) -> None:
        wire.tune()
        wire.tune_ok()
        wire.send(frame(METHOD, 0, struct.pack(">HHB", 10, 40, len(vhost)) + vhost + rest))

    add(f"open: {name}", run)


_vhost("no such vhost", b"dlx-no-such-vhost")
_vhost("empty vhost", b"")
_vhost("vhost of invalid UTF-8", b"\xff\xfe")
_vhost("vhost with a line feed", b"a\nb")
_vhost("cut short", b"/", b"")
_vhost("octets too many", b"/", b"\0\0\0\0\0")


@case("open: twice")
def _(wire: Wire) -> None:
    wire.open()
    wire.send(method(0, spec.Connection.Open(wire.vhost)))
    wire.probe()


@case("open: pipelined in one write")
def _(wire: Wire) -> None:
    everything = [
        HEADER_091,
        method(0, spec.Connection.StartOk(CAPABLE, "PLAIN", "\0guest\0guest")),
        method(0, spec.Connection.TuneOk(2047, 131072, 0)),
        method(0, spec.Connection.Open(wire.vhost)),
        method(1, spec.Channel.Open()),
        method(1, spec.Queue.Declare(queue="pipelined", exclusive=True)),
        publish(1, "pipelined", b"one"),
        method(1, spec.Basic.Get(queue="pipelined", no_ack=True)),
    ]
    wire.send(*everything)
    wire.probe()
