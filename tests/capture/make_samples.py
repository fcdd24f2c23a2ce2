"""Record the sample logs beside this file: the same odd traffic in three formats, and three exports.

    python tests/capture/make_samples.py 4.3 \
        amqp://guest:guest@127.0.0.1:5672 http://guest:guest@127.0.0.1:15672 rabbitmqctl

Needs a RabbitMQ with the management and tracing plugins; the last argument is the
command that runs ``rabbitmqctl`` there. Makes a virtual host and deletes it again.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import struct
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pika
import pika.data
import pika.spec

SAMPLES = Path(__file__).parent / "samples"
VHOST = "samples"


class Typed(bytes):
    """A field value with its AMQP type tag, already encoded: pika writes only some of the types."""


class Management:
    """The few calls of the management API that the recording needs."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self.base = f"{parts.scheme}://{parts.hostname}:{parts.port}/api/"
        token = base64.b64encode(f"{parts.username}:{parts.password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, self.headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return bytes(response.read())


def main(release: str, amqp_url: str, management_url: str, ctl: str) -> None:
    """Record everything for one release."""
    management = Management(management_url)
    management.call("PUT", f"vhosts/{VHOST}", {})
    management.call("PUT", f"permissions/{VHOST}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    try:
        record(release, amqp_url, management)
        export(release, management, ctl)
    finally:
        management.call("DELETE", f"vhosts/{VHOST}")


def record(release: str, amqp_url: str, management: Management) -> None:
    """Run the traffic with both traces and a firehose consumer; store what each of them saw."""
    for form in ("json", "text"):
        management.call("PUT", f"traces/{VHOST}/sample-{form}", {"format": form, "pattern": "#"})
    parameters = pika.URLParameters(f"{amqp_url}/{VHOST}")
    encoded = keep_encoded_properties()
    with pika.BlockingConnection(parameters) as listening, pika.BlockingConnection(parameters) as working:
        tap = listening.channel()
        tapped = tap.queue_declare("", exclusive=True).method.queue
        tap.queue_bind(tapped, "amq.rabbitmq.trace", "#")
        traffic(working.channel())
        time.sleep(3)  # the tracer writes its buffer out when it is idle
        with (SAMPLES / f"firehose-{release}.jsonl").open("w") as out:
            while (got := tap.basic_get(tapped, auto_ack=True))[0]:
                row = {"routing_key": got[0].routing_key, "properties": encoded[-1], "payload": text(got[2])}
                out.write(json.dumps(row) + "\n")
    for form in ("json", "text"):
        management.call("DELETE", f"traces/{VHOST}/sample-{form}")
        content = management.call("GET", f"trace-files/sample-{form}.log")
        (SAMPLES / f"trace-{form}-{release}.log").write_bytes(content)
        management.call("DELETE", f"trace-files/sample-{form}.log")


def keep_encoded_properties() -> list[str]:
    """Make pika write ``Typed`` values as they are, and keep the bytes of each properties frame it reads."""
    kept: list[str] = []
    decode, encode = pika.spec.BasicProperties.decode, pika.data.encode_value

    def decode_and_keep(self: Any, encoded: bytes, offset: int = 0) -> Any:
        kept.append(text(encoded[offset:]))
        try:
            return decode(self, encoded, offset)
        except (OverflowError, ValueError):
            return self

    def encode_typed(pieces: list[bytes], value: Any) -> int:
        if not isinstance(value, Typed):
            return encode(pieces, value)
        pieces.append(value)
        return len(value)

    pika.spec.BasicProperties.decode = decode_and_keep
    pika.data.encode_value = encode_typed
    return kept


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


ALL_TYPES: dict[str, Any] = {
    "bool": True,
    "byte": Typed(struct.pack(">cb", b"b", -8)),
    "ubyte": Typed(struct.pack(">cB", b"B", 200)),
    "short": Typed(struct.pack(">ch", b"s", -300)),
    "ushort": Typed(struct.pack(">cH", b"u", 60_000)),
    "int": Typed(struct.pack(">ci", b"I", -70_000)),
    "uint": Typed(struct.pack(">cI", b"i", 4_000_000_000)),
    "long": Typed(struct.pack(">cq", b"l", 2**53 + 1)),
    "float": Typed(struct.pack(">cf", b"f", 1.5)),
    "double": Typed(struct.pack(">cd", b"d", -2.718281828459045)),
    "whole": Typed(struct.pack(">cd", b"d", 3.0)),
    "decimal": Typed(struct.pack(">cBi", b"D", 2, 12345)),
    "timestamp": Typed(struct.pack(">cQ", b"T", 1_700_000_000)),
    "void": None,
    "string": 'quote " backslash \\ tab \t newline \n é',
    "binary": b"\x00\x01\xff\xfe",
    "bytes": b"plain",
    "table": {"inner": {"deep": [1, "two", {"three": 3}]}, "none": {}},
    "array": [],
    "zulu": "last",
    "Alpha": "capitals sort first",
}


EVERY_PROPERTY: dict[str, Any] = {
    "message_id": "m-3",
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "correlation_id": "corr",
    "reply_to": "reply",
    "expiration": "60000",
    "timestamp": 1_700_000_000,
    "type": "kind",
    "user_id": "guest",
    "app_id": "app",
    "cluster_id": "c",
    "priority": 3,
    "delivery_mode": 1,
}


def traffic(channel: Any) -> None:
    """Publishes, deliveries and deaths, with whatever may trouble a reader of the log."""
    basic = pika.BasicProperties
    channel.exchange_declare("orders", "topic", durable=True)
    channel.exchange_declare("dlx", "fanout", durable=True)
    for name, arguments in {
        "work": {"x-dead-letter-exchange": "dlx"},
        "dead": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "graveyard"},
        "graveyard": {},
        'Wörk "q"': {},
    }.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
    channel.queue_bind("work", "orders", "order.#")
    channel.queue_bind('Wörk "q"', "orders", "copy")
    channel.queue_bind("dead", "dlx")
    channel.queue_bind("work", "amq.headers", "k", {"x-match": "all", "void": None})

    def publish(key: str, body: bytes, exchange: str = "orders", **properties: Any) -> None:
        channel.basic_publish(exchange, key, body, basic(**properties))

    def get(queue: str, *, reject: bool = False, requeue: bool = False) -> None:
        while (method := channel.basic_get(queue)[0]) is None:  # a dead letter is on its way
            channel.connection.process_data_events(0.01)
        if reject:
            channel.basic_reject(method.delivery_tag, requeue=requeue)
        else:
            channel.basic_ack(method.delivery_tag)

    publish("order.new", b"plain", message_id="m-1", delivery_mode=2, content_type="text/plain")
    get("work")
    publish("order.types", b"{}", message_id="m-2", headers=ALL_TYPES)
    get("work")
    publish("order.all", b"every property", **EVERY_PROPERTY)
    get("work", reject=True)
    get("dead", reject=True)
    get("graveyard")
    publish("order.cc", b"copies", headers={"CC": ["copy", "copy"], "BCC": ["order.bcc"], "k": "v"})
    get("work", reject=True, requeue=True)
    get("work", reject=True)
    get("dead")
    get('Wörk "q"')
    publish("nowhere", b"", exchange="")
    publish("order.bin", bytes(range(256)), message_id="bin")
    get("work")
    fake = b"first\n" + b"=" * 80 + b"\n2026-11-21 0:00:00:000: Message published\n\nno header follows\n"
    publish("order.separator", fake, message_id="fake")
    get("work")
    publish("order.lines", b"\n\ntwo blank lines around\n\n", message_id="lines")
    get("work")
    long = "a long value that has to be broken over several lines, " * 5
    publish("order.long", b"long", headers={"long": long, "long é": long + "é", "n" * 90: "key"})
    get("work")
    forged = {"x-death": "not an array", "x-first-death-queue": "mine", "x-delivery-count": 7, "x": "y"}
    publish("order.forged", b"forged", message_id="forged", headers=forged)
    get("work")
    publish("order.empty-headers", b"", message_id="empty", headers={})
    get("work")
    publish("order.é", "latin é".encode(), message_id="é", headers={"clé": "é"})
    get("work")
    publish("order.unicode", "snowman ☃, 😀".encode(), message_id="☃", headers={"☃": "漢字"})
    get("work")


def export(release: str, management: Management, ctl: str) -> None:
    """Export definitions in all three ways, with policies of both kinds."""
    policy = {"pattern": "^dead$", "definition": {"message-ttl": 60000}, "priority": 2, "apply-to": "queues"}
    management.call("PUT", f"policies/{VHOST}/ttl", policy)
    operator = {"pattern": "^work", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues"}
    management.call("PUT", f"operator-policies/{VHOST}/cap", operator)
    internal = {"type": "fanout", "durable": True, "internal": True, "arguments": {}}
    management.call("PUT", f"exchanges/{VHOST}/hidden", internal)
    quorum = {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 3}}
    management.call("PUT", f"queues/{VHOST}/limited", quorum)
    done = subprocess.run([*shlex.split(ctl), "export_definitions", "-"], capture_output=True, check=True)
    exports = {
        "http": management.call("GET", "definitions"),
        "vhost": management.call("GET", f"definitions/{VHOST}"),
        "ctl": done.stdout,
    }
    for form, content in exports.items():
        without_hash = re.sub(rb'("password_hash": ?)"[^"]*"', rb'\1"c2FtcGxl"', content)
        (SAMPLES / f"definitions-{form}-{release}.json").write_bytes(without_hash)


if __name__ == "__main__":
    main(*sys.argv[1:])
