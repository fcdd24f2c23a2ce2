"""On an open connection: channel 0, channels that are not open or closed, too many channels, missed heartbeats."""

from __future__ import annotations

import struct
import time

from pika import spec

from tests.faults.cases.registry import DECLARE, add, case, running
from tests.faults.wire import BODY, HEADER, HEADER_091, HEARTBEAT, METHOD, Wire, content_header, frame, method, publish

running("channel 0: start-ok when open", method(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest")))
running("channel 0: tune-ok when open", method(0, spec.Connection.TuneOk(10, 4096, 0)))
running("channel 0: secure-ok when open", method(0, spec.Connection.SecureOk("x")))
running("channel 0: close-ok unasked", method(0, spec.Connection.CloseOk()))
running("channel 0: connection.start from the client", frame(METHOD, 0, b"\0\x0a\0\x0a\0\x09\0\0\0\0\0\0\0\0\0\0\0\0"))
running("channel 0: connection.tune from the client", method(0, spec.Connection.Tune(1, 4096, 0)))
running("channel 0: connection.blocked from the client", method(0, spec.Connection.Blocked("x")))
running("channel 0: connection.update-secret", method(0, spec.Connection.UpdateSecret("guest", "why not")))
running("channel 0: channel.open", method(0, spec.Channel.Open()))
running("channel 0: channel.close", method(0, spec.Channel.Close(200, "", 0, 0)))
running("channel 0: queue.declare", method(0, spec.Queue.Declare(queue="q")))
running("channel 0: basic.publish", publish(0, "q", b"x"))
running("channel 0: header frame", frame(HEADER, 0, struct.pack(">HHQH", 60, 0, 1, 0)))
running("channel 0: body frame", frame(BODY, 0, b"x"))
running("channel 0: long body frame", frame(BODY, 0, b"0123456789abcdefghi"))
running("channel 0: protocol header again", HEADER_091)
running("channel 0: unknown class", frame(METHOD, 0, struct.pack(">HH", 99, 10)))
running("channel 0: unknown method", frame(METHOD, 0, struct.pack(">HH", 10, 99)))
running("channel 0: method frame of two octets", frame(METHOD, 0, b"\0\x0a"))
running("channel 0: empty method frame", frame(METHOD, 0, b""))
running("channel 0: heartbeat", frame(HEARTBEAT, 0, b""))
running("channel 0: heartbeat with a payload", frame(HEARTBEAT, 0, b"beat"))
running("channel 0: connection.close", method(0, spec.Connection.Close(200, "bye", 0, 0)))
running(
    "channel 0: what follows connection.close",
    method(0, spec.Connection.Close(200, "bye", 0, 0)),
    method(1, spec.Queue.Declare(queue="after")),
    frame(77, 9, b"?"),
)
running("channel 0: connection.close cut short", frame(METHOD, 0, b"\0\x0a\0\x32\0\xc8\x03by"))

running("channel 1: heartbeat", frame(HEARTBEAT, 1, b""))
running("channel 5, not open: heartbeat", frame(HEARTBEAT, 5, b""))
running("channel 1: connection.close", method(1, spec.Connection.Close(200, "bye", 0, 0)))
running("channel 1: connection.open", method(1, spec.Connection.Open("/")))
running("channel 1: channel.open again", method(1, spec.Channel.Open()))
running("channel 1: close-ok unasked", method(1, spec.Channel.CloseOk()))
running("channel 1: close-ok unasked, then a method", method(1, spec.Channel.CloseOk()), DECLARE)
running("channel 1: flow-ok unasked", method(1, spec.Channel.FlowOk(True)))
running("channel 1: channel.flow off", method(1, spec.Channel.Flow(False)))
running("channel 1: channel.flow on", method(1, spec.Channel.Flow(True)))
running("channel 1: close", method(1, spec.Channel.Close(200, "bye", 0, 0)))
running("channel 1: close, then a method", method(1, spec.Channel.Close(200, "bye", 0, 0)), DECLARE)
running("channel 1: close, then open", method(1, spec.Channel.Close(200, "", 0, 0)), method(1, spec.Channel.Open()))
running("channel 1: open-ok from the client", method(1, spec.Channel.OpenOk()))
running("channel 1: declare-ok from the client", method(1, spec.Queue.DeclareOk("q", 0, 0)))
running("channel 1: basic.deliver from the client", method(1, spec.Basic.Deliver("c", 1, False, "", "q")))
running("channel 1: basic.return from the client", method(1, spec.Basic.Return(312, "NO_ROUTE", "", "q")))
running("channel 1: basic.get-empty from the client", method(1, spec.Basic.GetEmpty()))
running("channel 1: tx.commit-ok from the client", method(1, spec.Tx.CommitOk()))
running("channel 1: basic.recover-async", method(1, spec.Basic.RecoverAsync(False)))
running("channel 1: access.request", method(1, spec.Access.Request()))
running("channel 2, not open: queue.declare", method(2, spec.Queue.Declare(queue="r")))
running("channel 2, not open: basic.publish", publish(2, "q", b"x"))
running("channel 2, not open: channel.close", method(2, spec.Channel.Close(200, "", 0, 0)))
running("channel 2, not open: channel.close-ok", method(2, spec.Channel.CloseOk()))
running("channel 2, not open: body frame", frame(BODY, 2, b"x"))
running("channel 2, not open: header frame", content_header(2, 1))
running("channel 2, not open: unknown frame type", frame(6, 2, b"x"))
running(
    "channel 1: both close at once",
    method(1, spec.Queue.Declare(queue="none", passive=True)),
    method(1, spec.Channel.Close(200, "", 0, 0)),
)


def _after_close(name: str, *octets: bytes) -> None:
    """Octets that a client sends when the server has closed its channel, instead of ``channel.close-ok``."""

    def run(wire: Wire) -> None:
        wire.channel()
        wire.queue("q", durable=True)
        wire.send(method(1, spec.Queue.Declare(queue="none", passive=True)))
        wire.next(answering=False)
        wire.send(*octets)
        wire.probe()

    add(f"channel 1: {name} after the server closed the channel", run)


_after_close("a method", DECLARE, publish(1, "q", b"x"), method(1, spec.Basic.Ack(7)))
_after_close("channel.open", method(1, spec.Channel.Open()))
_after_close("garbage", frame(BODY, 1, b"x"))


def _counted(name: str, channel_max: int, *numbers: int) -> None:
    def run(wire: Wire) -> None:
        wire.open(channel_max=channel_max)
        for number in numbers:
            wire.send(method(number, spec.Channel.Open()))
            wire.quiet = "open-ok" in wire.next()

    add(f"channels: {name}", run)


_counted("the last number allowed", 10, 10)
_counted("a number above channel_max", 10, 11)
_counted("a number far above channel_max", 10, 65535)
_counted("as many as allowed, any number", 3, 1, 100, 65535)
_counted("one too many", 3, 1, 2, 3, 4)


def _silent(name: str, seconds: int, *octets: bytes) -> None:
    """A client that goes silent is closed after three intervals, and gets two heartbeats in each until then."""

    def run(wire: Wire) -> None:
        wire.channel(heartbeat=seconds)
        wire.send(*octets)
        began, beats = time.monotonic(), 0
        while "heartbeat" in wire.next():
            wire.log.pop()
            beats += 1
        took = (time.monotonic() - began) / seconds
        if not (2 <= took <= 4 and beats >= 4):  # measured are 3.0 intervals and 5 heartbeats
            wire.log.append(f"after {took:.1f} intervals and {beats} heartbeats")

    add(f"heartbeat: {name}", run)


_silent("of one second, silent client", 1)
_silent("of two seconds, silent client", 2)
_silent("of one second, then half a frame", 1, DECLARE[:9])


@case("heartbeat: of one second, a client that does nothing else")
def _(wire: Wire) -> None:
    wire.channel(heartbeat=1)
    for _ in range(9):
        wire.send(frame(HEARTBEAT, 0, b""))
        time.sleep(0.5)
    wire.fate_only = True
    wire.probe()
