"""Play a recorded case on a simulated server, in virtual time: each step has its answer.

A step is an object. Its first key says what it does:

* ``exchange``, ``queue``, ``bind``, ``bind_exchange``, ``unbind``, ``delete_exchange``, ``delete_queue``, ``purge``:
  the method of AMQP. Its answer is ``ok``, or how the server closed (``channel 406 ...``, ``connection 541 ...``).
* ``publish``: one message, ``mandatory`` unless it says otherwise, and what came back, in order; with ``many`` as many
  messages, each under a key of its own.
* ``drain``: take messages from a queue for ``for`` ms, or until there are ``until``; ``brief`` shows one part of each.
* ``reject``: wait up to ``wait`` ms for a message and reject it.
* ``count``, ``map``, ``spread``: how many messages queues hold; which; how those that chance sends are spread.
* ``http``: a call of the management API, again until its body has ``until_has``; ``pick`` names the fields to compare.
* ``vhost``: a second virtual host, which steps with ``in`` use. ``sleep``: wait, ms.

``{vhost}``, ``{node}``, ``{port}``, ``{cluster}`` and ``now`` stand for what differs from run to run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import simulator
from tests.differential.client import Incoming
from tests.plugins import client
from tests.plugins.client import Client, Closed

TICK_MS = 10  # between two looks at a confirm that does not come
LOOK_MS = 1000  # the longest time between two looks at a queue
HTTP_LOOK_MS = 200
SETTLE_MS = 300
REJECT_MS = 3000
CONFIRM_MS = 10_000

Step = dict[str, Any]


class Played(NamedTuple):
    """What came of a case: the answer to each step; by step, when its messages came, ms since the first publish.

    Where it ``failed``, the steps from there on have the fault as their answer, and the server is not to be used again.
    """

    answers: list[Any]
    ms: dict[int, list[int]]
    failed: bool = False


class Player:
    """Plays the cases of one server, one after another.

    Args:
        server: a simulated server with a management API, on virtual time.
        number: of the case, for the name of its virtual host.
        vhost: the virtual host that the case names, which is there already or which it makes itself.
    """

    def __init__(self, server: simulator.Server, number: int, vhost: str | None) -> None:
        assert server.management_url is not None
        self._server, self._url = server, server.management_url
        self._own = vhost is None
        self._vhost = vhost or f"plugins-{number}"
        self._clients: dict[str, Client] = {}
        self._first_us: int | None = None
        self._ms: dict[int, list[int]] = {}
        client.http(self._url, "PUT", "/api/cluster-name", {"name": "the-cluster"})  # else it has the node's name
        overview = client.http(self._url, "GET", "/api/overview")[1]
        self._node, self._cluster = overview["node"], overview["cluster_name"]

    def play(self, steps: list[Step]) -> Played:
        """Do all steps, whatever the answers are."""
        if self._own:
            self._make_vhost(self._vhost)
        answers: list[Any] = []
        try:
            for number, step in enumerate(steps):
                answers.append(self._masked(self._answer(self._filled(step), number)))
        except Exception as error:  # a fault of the simulator is a difference like any other
            return Played(answers + [f"failed: {error!r}"] * (len(steps) - len(answers)), self._ms, failed=True)
        for each in self._clients.values():
            each.close()
        if self._own:
            for name in (self._vhost, f"{self._vhost}.b"):
                client.http(self._url, "DELETE", f"/api/vhosts/{name}")
        return Played(answers, self._ms)

    def _answer(self, step: Step, number: int) -> Any:
        try:
            return _DO[next(iter(step))](self, step, number)
        except Closed as closed:
            return str(closed)

    # -- names and time

    def _filled(self, step: Step) -> Step:
        text = json.dumps(step).replace("{vhost}", self._vhost).replace("{node}", self._node)
        filled: Step = json.loads(text.replace("{port}", str(urlsplit(self._server.amqp_url).port)))
        return filled

    def _masked(self, answer: Any) -> Any:
        text = json.dumps(answer, ensure_ascii=False)
        port = str(urlsplit(self._server.amqp_url).port)
        for real, name in ((self._vhost, "vhost"), (self._node, "node"), (port, "port"), (self._cluster, "cluster")):
            text = text.replace(real, f"{{{name}}}")
        text = text.replace(quote(self._node, safe=""), "{node}")
        text = re.sub(r"#PID<[^>]*>|<\d+\.\d+\.\d+>", "<pid>", text)
        text = re.sub(r'("timestamp_in_ms"|"x-shovelled-timestamp"): \{"l": 1[789]\d+\}', r'\1: {"l": "now"}', text)
        return json.loads(re.sub(r'"timestamp": "20\d\d-[^"]*"', '"timestamp": "now"', text))

    def _now_us(self) -> int:
        return self._server.clock.now_us()

    def _now_s(self) -> float:
        return self._now_us() / 1e6

    def _since_first_ms(self) -> int:
        now_us = self._now_us()
        return (now_us - (self._first_us or now_us)) // 1000

    def _wait(self, ms: float) -> None:
        self._server.clock.advance(milliseconds=ms)

    def _wait_for_more(self, until_us: int) -> None:
        """Let time pass to what happens next, but not beyond ``until_us``."""
        now_us = self._now_us()
        due_us = self._server.run(lambda node: node.broker.next_due()) or until_us
        next_us = min(max(due_us, now_us + 1), until_us, now_us + LOOK_MS * 1000)
        self._wait((next_us - now_us) / 1000)

    # -- virtual hosts, management API

    def _make_vhost(self, name: str) -> None:
        client.http(self._url, "PUT", f"/api/vhosts/{name}", {})
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        client.http(self._url, "PUT", f"/api/permissions/{name}/guest", everything)

    def _vhost_too(self, step: Step, number: int) -> str:
        self._make_vhost(f"{self._vhost}.{step['vhost']}")
        return "ok"

    def _http(self, step: Step, number: int) -> Any:
        until_us = self._now_us() + step.get("wait", 0) * 1000
        while True:
            status, body = client.http(self._url, step["http"], step["path"], step.get("body"))
            if step.get("until_has", "") in json.dumps(body) or self._now_us() >= until_us:
                break
            self._wait(HTTP_LOOK_MS)
        if step["path"] == "/api/shovels" and isinstance(body, list):
            body = [each for each in body if each.get("vhost", "").startswith(self._vhost)]
        if body in (None, "") or (step.get("expect_ok") and status < 300):
            return {"status": status}
        return {"status": status, "body": _picked(body, step.get("pick"))}

    # -- AMQP

    def _client(self, step: Step) -> Client:
        name = step.get("in", "")
        vhost = f"{self._vhost}.{name}" if name else self._vhost
        return self._clients.setdefault(name, Client(self._server.amqp_url, vhost))

    def _table(self, values: dict[str, Any]) -> dict[str, Any]:
        return client.table(values, self._now_s())

    def _call(self, step: Step, method: str, **values: Any) -> str:
        self._client(step).call(method, **values)
        return "ok"

    def _declare_exchange(self, step: Step, number: int) -> str:
        flags = {name: step.get(name, name == "durable") for name in ("durable", "auto_delete", "internal", "passive")}
        names = {"exchange": step["exchange"], "type": step["type"]}
        return self._call(step, "exchange.declare", **names, **flags, arguments=self._table(step.get("args", {})))

    def _declare_queue(self, step: Step, number: int) -> str:
        flags = {name: step.get(name, name == "durable") for name in ("durable", "exclusive", "passive")}
        return self._call(
            step, "queue.declare", queue=step["queue"], **flags, arguments=self._table(step.get("args", {}))
        )

    def _bind(self, step: Step, number: int) -> str:
        names = {"queue": step["bind"], "exchange": step["to"], "routing_key": step.get("key", "")}
        return self._call(step, "queue.bind", **names, arguments=self._table(step.get("args", {})))

    def _bind_exchange(self, step: Step, number: int) -> str:
        names = {"destination": step["bind_exchange"], "source": step["to"], "routing_key": step.get("key", "")}
        return self._call(step, "exchange.bind", **names, arguments=self._table(step.get("args", {})))

    def _unbind(self, step: Step, number: int) -> str:
        names = {"queue": step["unbind"], "exchange": step["from"], "routing_key": step.get("key", "")}
        return self._call(step, "queue.unbind", **names, arguments=self._table(step.get("args", {})))

    def _delete_exchange(self, step: Step, number: int) -> str:
        if_unused = step.get("if_unused", False)
        return self._call(step, "exchange.delete", exchange=step["delete_exchange"], if_unused=if_unused)

    def _delete_queue(self, step: Step, number: int) -> str:
        return self._call(step, "queue.delete", queue=step["delete_queue"])

    def _purge(self, step: Step, number: int) -> str:
        return self._call(step, "queue.purge", queue=step["purge"])

    def _publish(self, step: Step, number: int) -> Any:
        if "many" not in step:
            return self._publish_one(step, step.get("key", ""), step.get("body", "m"))
        odd = {}
        for each in range(step["many"]):
            key = step.get("pattern", "key-%d") % each
            if (answer := self._publish_one(step, key, key)) != ["ack"]:
                odd[key] = answer
        if not odd:
            return "all acked"
        return odd if len(odd) < 5 else {"odd": len(odd), "first": list(next(iter(odd.items())))}

    def _publish_one(self, step: Step, key: str, body: str) -> list[str]:
        if self._first_us is None:
            self._first_us = self._now_us()
        properties = dict(step.get("props", {}))
        if properties.get("timestamp") == "now":
            properties["timestamp"] = int(self._now_s())
        if "headers" in step:
            properties["headers"] = self._table(step["headers"])
        if "hash_header" in step:
            properties["headers"] = self._table({step["hash_header"]: key})
        if "hash_prop" in step:
            properties[step["hash_prop"]] = key
        sent_with = step.get("key", "") if step.get("fixed_key") is not None else key
        publisher = self._client(step)
        values = {"exchange": step["publish"], "routing_key": sent_with, "mandatory": step.get("mandatory", True)}
        seen = publisher.publish(properties, body.encode(), **values)
        until_us = self._now_us() + CONFIRM_MS * 1000
        while not any(each.is_close or each.method in ("basic.ack", "basic.nack") for each in seen):
            if self._now_us() >= until_us:
                return [*(self._came_back(each, step) for each in seen), "no confirm"]
            self._wait(TICK_MS)
            seen += publisher.arrived()
        return [self._came_back(each, step) for each in seen]

    def _came_back(self, incoming: Incoming, step: Step) -> str:
        if incoming.is_close:
            return client.closing(incoming)
        if incoming.method != "basic.return":
            return incoming.method.removeprefix("basic.")
        values = incoming.values
        text = f"return {values['code']} {values['text']} exchange={values['exchange']} key={values['routing_key']}"
        headers = {n: client.written(v, self._now_s()) for n, v in incoming.properties.get("headers", {}).items()}
        return f"{text} headers={json.dumps(headers)}" if step.get("show_return") else text

    def _get(self, step: Step, queue: str, *, no_ack: bool = True) -> Incoming | None:
        got = self._client(step).call("basic.get", queue=queue, no_ack=no_ack)
        return got if got.method == "basic.get-ok" else None

    def _drained(self, step: Step, queue: str, for_ms: int, until: int | None = None) -> tuple[list[Any], list[int]]:
        until_us = self._now_us() + for_ms * 1000
        messages, at_ms = [], []
        while until is None or len(messages) < until:
            if got := self._get(step, queue):
                messages.append(self._shown(got))
                at_ms.append(self._since_first_ms())
            elif self._now_us() >= until_us:
                break
            else:
                self._wait_for_more(until_us)
        return messages, at_ms

    def _drain(self, step: Step, number: int) -> list[Any]:
        messages, at_ms = self._drained(step, step["drain"], step.get("for", SETTLE_MS), step.get("until"))
        if at_ms:
            self._ms[number] = at_ms
        brief = step.get("brief")
        return [each.get(brief, each) if brief else each for each in messages]

    def _reject(self, step: Step, number: int) -> Any:
        until_us = self._now_us() + step.get("wait", REJECT_MS) * 1000
        while (got := self._get(step, step["reject"], no_ack=False)) is None:
            if self._now_us() >= until_us:
                return "nothing came"
            self._wait_for_more(until_us)
        self._ms[number] = [self._since_first_ms()]
        shown = self._shown(got)
        tag = got.values["delivery_tag"]
        self._client(step).send("basic.reject", delivery_tag=tag, requeue=step.get("requeue", False))
        return shown

    def _shown(self, got: Incoming) -> dict[str, Any]:
        properties = {name: value for name, value in got.properties.items() if name != "headers"}
        if "timestamp" in properties:
            properties["timestamp"] = client.moment(properties["timestamp"], self._now_s())
        shown: dict[str, Any] = {"body": got.body.decode("utf-8", "replace")}
        shown |= {"exchange": got.values["exchange"], "key": got.values["routing_key"]}
        if got.values["redelivered"]:
            shown["redelivered"] = True
        if properties:
            shown["props"] = properties
        if "headers" in got.properties:
            shown["headers"] = {n: client.written(v, self._now_s()) for n, v in got.properties["headers"].items()}
        return shown

    def _count(self, step: Step, number: int) -> dict[str, int]:
        self._wait(step.get("settle", SETTLE_MS))
        asked = self._client(step)
        return {q: asked.call("queue.declare", queue=q, passive=True).values["messages"] for q in step["count"]}

    def _bodies(self, step: Step, queues: list[str]) -> dict[str, list[str]]:
        self._wait(step.get("settle", SETTLE_MS))
        return {queue: [message["body"] for message in self._drained(step, queue, 0)[0]] for queue in queues}

    def _map(self, step: Step, number: int) -> dict[str, list[str]]:
        return self._bodies(step, step["map"])

    def _spread(self, step: Step, number: int) -> dict[str, Any]:
        got = self._bodies(step, step["spread"])
        bodies = [body for each in got.values() for body in each]
        some = sorted(queue for queue in got if got[queue])
        return {"messages": len(set(bodies)), "copies": len(bodies), "queues that got some": some}

    def _sleep(self, step: Step, number: int) -> str:
        self._wait(step["sleep"])
        return "ok"


_DO: dict[str, Callable[[Player, Step, int], Any]] = {
    "exchange": Player._declare_exchange,
    "queue": Player._declare_queue,
    "bind": Player._bind,
    "bind_exchange": Player._bind_exchange,
    "unbind": Player._unbind,
    "delete_exchange": Player._delete_exchange,
    "delete_queue": Player._delete_queue,
    "purge": Player._purge,
    "publish": Player._publish,
    "drain": Player._drain,
    "reject": Player._reject,
    "count": Player._count,
    "map": Player._map,
    "spread": Player._spread,
    "http": Player._http,
    "vhost": Player._vhost_too,
    "sleep": Player._sleep,
}


def _picked(body: Any, fields: list[str] | None) -> Any:
    """Return only these fields; of a list without the default exchange and those of the server."""
    if fields is None or (isinstance(body, dict) and "error" in body):
        return body
    if isinstance(body, list):
        return [_picked(each, fields) for each in body if not _is_predeclared(each)]
    return {name: body[name] for name in fields if name in body} if isinstance(body, dict) else body


def _is_predeclared(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    name = str(item.get("name", "x"))
    return name == "" or ("type" in item and name.startswith("amq."))
