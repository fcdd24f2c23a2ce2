"""Plays a scenario on a running Zaqar and writes down what happened, in the form that ``vectors`` reads."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from simulator.systems.zaqar import zaqar_scenario
from simulator.systems.zaqar.zaqar_scenario import AnyStep, Claim, Create, EndClaims, Look, Post, StepRequest, Wait

VARIABLE = "DLX_LIVE_ZAQAR"
_CONSUMER, _PRODUCER = str(uuid.uuid4()), str(uuid.uuid4())
_TIMEOUT_S = 30


Send = Callable[[str, str, dict[str, str], str | None], tuple[int, str | None, bytes]]


class NoServer(LookupError):
    """There is no Zaqar to ask."""


class Redis:
    """As much of redis' protocol as it takes to look at a message."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._file = self._socket.makefile("rb")

    def ask(self, *words: object) -> Any:
        """Send a command; its reply."""
        parts = [str(word).encode() for word in words]
        self._socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self._reply()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def _reply(self) -> Any:
        line = self._file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2].decode(errors="replace")
        assert kind in b"+:", line
        return int(rest) if kind == b":" else rest.decode()


class Server:
    """A running Zaqar and its redis, as ``DLX_LIVE_ZAQAR`` names them. Raises ``NoServer``."""

    def __init__(self) -> None:
        given = os.environ.get(VARIABLE, "")
        if not given:
            here = os.path.relpath(os.path.dirname(__file__))
            raise NoServer(f"no Zaqar server: run {here}/server run pytest -m live {here}")
        url, _, port = given.partition("|")
        self._http = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_TIMEOUT_S)
        self.redis = Redis(int(port))

    def close(self) -> None:
        """Hang up."""
        self._http.close()
        self.redis.close()

    def send(self, method: str, path: str, headers: dict[str, str], body: str | None) -> tuple[int, str | None, bytes]:
        """Send a request: the answer's status, Location and body."""
        status, found, content = self.ask(method, path, headers, None if body is None else body.encode())
        return status, found.get("location"), content

    def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request: the answer's status, headers by their names in small letters, and body."""
        self._http.request(method, path, body=body, headers=headers)
        response = self._http.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


class Recorder:
    """One scenario on a server.

    Args:
        send: sends a request: method, path, headers and body; gives status, Location and body.
        redis: to look behind the API.
    """

    def __init__(self, send: Send, redis: Redis | None = None) -> None:
        self._send, self._redis = send, redis
        self._project = f"p{uuid.uuid4().hex}"
        self._start_s = time.time()
        self._trace: list[dict[str, Any]] = []
        self._messages: dict[str, str] = {}
        self._claims: dict[str, str] = {}

    def record(self, document: dict[str, Any]) -> dict[str, Any]:
        """Play a scenario; the recorded trace."""
        read = zaqar_scenario.read(document)
        for name, metadata in read.queues.items():
            self._take(Create(queue=name, metadata=metadata))
        for step in read.steps:
            self._take(step)
        text = json.dumps({"project": self._project, "trace": self._trace})
        for kind, known in (("msg", self._messages), ("claim", self._claims)):
            for name, id in known.items():
                text = text.replace(id, f"<{kind}:{name}>")
        return json.loads(text)

    def _take(self, step: AnyStep) -> None:
        match step:
            case Wait(s=wait_s):
                time.sleep(wait_s)
                self._write({"note": f"sleep {wait_s} s"})
            case EndClaims():
                for id in self._messages.values():
                    claim, ends_s = self._ask_redis("HMGET", id, "c", "c.e")
                    if claim and int(ends_s) > time.time():
                        self._ask_redis("HSET", id, "c.e", int(time.time()) - 1)
                self._write({"note": "forced c.e into the past"})
            case Look(message=name):
                self._write({"redis_state_of": self._messages[name], "state": self._state(self._messages[name])})
            case _:
                self._ask(step)

    def _ask(self, step: AnyStep) -> None:
        asked = self._with_ids(step).asked()
        assert asked is not None
        event = self._event(asked)
        self._write(event)
        if isinstance(step, Post) and event["status"] == 201:
            ids = [path.rpartition("/")[2] for path in event["response"]["resources"]]
            self._messages |= {one.id or id: id for one, id in zip(step.messages, ids, strict=True)}
        if isinstance(step, Claim) and event["status"] == 201 and step.claim is not None:
            self._claims[step.claim] = event["location"].rpartition("/")[2]

    def _event(self, asked: StepRequest) -> dict[str, Any]:
        """A request and its answer, as they are written down."""
        posts = asked.method == "POST" and asked.path.partition("?")[0].endswith("/messages")
        headers = {"X-PROJECT-ID": self._project, "Client-ID": _PRODUCER if posts else _CONSUMER}
        headers |= {"Content-Type": "application/json", **asked.headers}
        text = asked.body if asked.body is None or isinstance(asked.body, str) else json.dumps(asked.body)
        status, location, content = self._send(asked.method, asked.path, headers, text)
        return {
            "method": asked.method,
            "path": asked.path,
            "request": asked.body,
            "status": status,
            "response": json.loads(content) if content else None,
            **({} if location is None else {"location": location}),
        }

    def _ask_redis(self, *words: object) -> Any:
        assert self._redis is not None, "this scenario looks behind the API"
        return self._redis.ask(*words)

    def _with_ids(self, step: AnyStep) -> AnyStep:
        """The step with the server's ids of what it names."""
        message, claim = getattr(step, "message", None), getattr(step, "claim", None)
        if message in self._messages:
            step = replace(step, message=self._messages[message])
        if claim in self._claims:
            step = replace(step, claim=self._claims[claim])
        return step

    def _write(self, event: dict[str, Any]) -> None:
        self._trace.append({"t_s": round(time.time() - self._start_s, 4), **event})

    def _state(self, id: str) -> dict[str, Any]:
        """A message as redis has it."""
        ask = self._ask_redis
        flat = ask("HGETALL", id)
        fields, now_s = dict(zip(flat[::2], flat[1::2], strict=True)), int(time.time())
        keys = [key for key in ask("KEYS", f"{self._project}.*.messages") if ask("ZSCORE", key, id) is not None]
        queues = sorted(key.removesuffix(".messages").partition(".")[2] for key in keys)
        if not fields:
            return {"exists": False, "member_of": queues}
        return {
            "exists": True,
            "ttl_field_t": int(fields["t"]),
            "expires_minus_now": int(fields["e"]) - now_s,
            "age": now_s - int(fields["cr"]),
            "claim": fields["c"],
            "claim_expires_minus_now": int(fields["c.e"]) - now_s,
            "claim_count": int(fields["c.c"]),
            "redis_key_ttl": ask("TTL", id),
            "member_of": queues,
        }
