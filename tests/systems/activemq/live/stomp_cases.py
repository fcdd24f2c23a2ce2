"""Named talks of STOMP with a broker: the steps of each, and the configuration where it is not the usual one.

What the real broker made of them is in ``recorded_stomp.json``: ``python -m tests.systems.activemq.live.record_stomp``
asks it again. ``Q`` is the queue that most are about, ``a`` the connection that works and ``look`` the one that looks
at what is left.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.systems.activemq.live.cases import configuration, policies, strategy
from tests.systems.activemq.live.stomp_player import Step

Q, DLQ = "/queue/Q", "/queue/ActiveMQ.DLQ"


class Talk(msgspec.Struct, frozen=True):
    """The steps; ``inner`` and ``attributes`` are those of the element broker."""

    steps: list[Step]
    inner: str = ""
    attributes: str = ""

    @property
    def xml(self) -> str:
        """The whole ``activemq.xml``, with ``{port}`` for that of STOMP."""
        listens = '<transportConnectors><transportConnector uri="stomp://127.0.0.1:{port}"/></transportConnectors>'
        return configuration(self.inner + listens, self.attributes)


def frame(command: str, body: str = "", on: str = "a", **headers: str) -> Step:
    """A frame; ``_`` in a header's name is ``-``, and ``__`` is ``.``."""
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
    return {"connection": on, "frame": command, "headers": named, "body": body}


def with_headers(step: Step, **headers: str) -> Step:
    """The same frame with more headers, whose names are as they are."""
    return {**step, "headers": {**step["headers"], **headers}}


def connect(version: str = "1.2", on: str = "a", **headers: str) -> Step:
    return frame("CONNECT", on=on, accept_version=version, host="x", **headers)


def send(body: str = "A", to: str = Q, on: str = "a", *, persistent: bool = True, **headers: str) -> Step:
    kept = {"persistent": "true"} if persistent else {}
    return frame("SEND", body, on, destination=to, **kept, **headers)


def subscribe(ack: str = "client", to: str = Q, on: str = "a", number: str = "1", **headers: str) -> Step:
    return frame("SUBSCRIBE", on=on, destination=to, id=number, ack=ack, **headers)


def ack(body: str, on: str = "a", command: str = "ACK", **headers: str) -> Step:
    return frame(command, on=on, id=f"<ack of {body}>", **headers)


def nack(body: str, on: str = "a", **headers: str) -> Step:
    return ack(body, on, "NACK", **headers)


def ack11(body: str, command: str = "ACK", number: str = "1", **headers: str) -> Step:
    return {
        "connection": "a",
        "frame": command,
        "headers": {"subscription": number, "message-id": f"<id of {body}>", **headers},
        "body": "",
    }


def tx(command: str, name: str = "t", **headers: str) -> Step:
    return frame(command, transaction=name, **headers)


def broken(on: str = "a") -> Step:
    return {"connection": on, "break": True}


def wait(ms: int) -> Step:
    return {"wait_ms": ms}


def raw(text: str, on: str = "a") -> Step:
    return {"connection": on, "raw": text}


def look(*queues: str) -> list[Step]:
    """What is in the queues; by default in Q, and what is dead."""
    return [
        connect(on="look"),
        *(subscribe("auto", queue, "look", str(index)) for index, queue in enumerate(queues or (Q, DLQ), 7)),
    ]


DISCONNECT = frame("DISCONNECT", receipt="bye")
_OUTCOMES: dict[str, list[Step]] = {
    "acknowledged": [ack("A")],
    "rejected": [nack("A")],
    "and a disconnect": [DISCONNECT],
    "and a broken socket": [broken()],
    "acknowledged in a transaction that is aborted": [
        tx("BEGIN"),
        ack("A", transaction="t"),
        tx("ABORT", receipt="r"),
        ack("A", receipt="again"),
    ],
    "acknowledged in a transaction that commits": [tx("BEGIN"), ack("A", transaction="t"), tx("COMMIT", receipt="r")],
    "rejected in a transaction": [tx("BEGIN"), nack("A", transaction="t"), tx("COMMIT", receipt="r")],
    "rejected in a transaction that is aborted": [
        tx("BEGIN"),
        nack("A", transaction="t", receipt="n"),
        tx("ABORT", receipt="r"),
    ],
    "and unsubscribed": [frame("UNSUBSCRIBE", id="1", receipt="u")],
    "acknowledged in a transaction that a disconnect ends": [tx("BEGIN"), ack("A", transaction="t"), DISCONNECT],
}


def _systematic() -> dict[str, Talk]:
    found = {}
    for mode in ("client", "client-individual"):
        for what, steps in _OUTCOMES.items():
            for persistent in (True, False) if "transaction" not in what or "rejected" in what else (True,):
                kind = "persistent" if persistent else "not persistent"
                begin = [connect(), subscribe(mode), send(persistent=persistent), send("B", persistent=persistent)]
                found[f"{mode}, {kind}, {what}"] = Talk([*begin, *steps, *look()])
    for persistent in (True, False):
        kind = "persistent" if persistent else "not persistent"
        begin = [connect(), subscribe("auto"), send(persistent=persistent), wait(200)]
        found[f"auto, {kind}, and a broken socket"] = Talk([*begin, broken(), *look()])
    return found


def three(mode: str = "client", version: str = "1.2", **headers: str) -> list[Step]:
    return [connect(version), *(send(body) for body in "ABC"), subscribe(mode, **headers)]


NON_PERSISTENT_TOO = policies(strategy('<sharedDeadLetterStrategy processNonPersistent="true"/>'))
OWN_QUEUES = policies(strategy('<individualDeadLetterStrategy queuePrefix="DLQ."/>'))
PLUGIN = (
    '<plugins><redeliveryPlugin fallbackToDeadLetter="true" sendToDlqIfMaxRetriesExceeded="true">'
    "<redeliveryPolicyMap><redeliveryPolicyMap><defaultEntry>"
    '<redeliveryPolicy maximumRedeliveries="1" initialRedeliveryDelay="1000" redeliveryDelay="1000"/>'
    "</defaultEntry></redeliveryPolicyMap></redeliveryPolicyMap></redeliveryPlugin></plugins>"
)

TALKS: dict[str, Talk] = _systematic() | {
    # -- acknowledgements
    "cumulative": Talk([*three(), ack("B"), ack("A", receipt="late"), broken(), *look()]),
    "individual is not cumulative": Talk([*three("client-individual"), ack("B"), broken(), *look()]),
    "a client rejects the second": Talk([*three(), nack("B"), broken(), *look()]),
    "a client rejects the second and acknowledges the third": Talk([*three(), nack("B"), ack("C"), broken(), *look()]),
    "rejected twice": Talk([*three(), nack("A"), nack("A", receipt="twice"), *look(DLQ)]),
    "acknowledged twice": Talk([*three("client-individual"), ack("A"), ack("A", receipt="twice")]),
    "acknowledged in auto": Talk([connect("1.1"), subscribe("auto"), send(), ack11("A", receipt="r")]),
    "an unknown mode is auto": Talk([connect(), subscribe("whatever"), send(), broken(), *look()]),
    "1.0 acknowledges by message-id": Talk(
        [*three(version="1.0"), frame("ACK", message_id="<id of B>"), broken(), *look()]
    ),
    "1.0 has no NACK": Talk([*three(version="1.0"), frame("NACK", message_id="<id of A>", receipt="n")]),
    "1.0 subscribes without id": Talk(
        [
            connect("1.0"),
            frame("SUBSCRIBE", destination=Q, ack="client"),
            send(),
            frame("UNSUBSCRIBE", destination=Q, receipt="u"),
            frame("UNSUBSCRIBE", receipt="v"),
            *look(),
        ]
    ),
    "1.1 acknowledges by message-id and subscription": Talk([*three(version="1.1"), ack11("B"), broken(), *look()]),
    "1.1 rejects by message-id and subscription": Talk([*three(version="1.1"), ack11("B", "NACK"), broken(), *look()]),
    "1.1 rejects without subscription": Talk(
        [
            *three(version="1.1"),
            frame("NACK", message_id="<id of A>", receipt="n"),
            frame("NACK", subscription="1", receipt="m"),
            frame("ACK", message_id="<id of A>", receipt="o"),
        ]
    ),
    "1.1 has no ack header": Talk([*three(version="1.1"), frame("ACK", id="x", receipt="n")]),
    "1.2 needs the ack header": Talk([*three(), frame("ACK", receipt="n"), frame("NACK", receipt="m")]),
    "1.2 and headers of 1.1": Talk([*three(), ack11("A", receipt="n")]),
    "unknown ids": Talk(
        [*three(), frame("ACK", id="nobody", receipt="n"), frame("NACK", id="nobody", receipt="m"), *look()]
    ),
    "unknown ids of 1.1": Talk(
        [
            *three(version="1.1"),
            frame("ACK", subscription="1", message_id="ID:a-1-1-1:1:-1:1:1", receipt="n"),
            frame("NACK", subscription="2", message_id="<id of A>", receipt="m"),
        ]
    ),
    "a message of two subscriptions": Talk(
        [
            connect(),
            subscribe("client", "/topic/T"),
            subscribe("client", "/topic/T", number="2"),
            send(to="/topic/T"),
            ack("A"),
            ack("A", receipt="r"),
        ]
    ),
    # -- transactions
    "cumulative in a transaction that is aborted": Talk(
        [*three(), tx("BEGIN"), ack("B", transaction="t"), tx("ABORT"), ack("C"), broken(), *look()]
    ),
    "cumulative in a transaction that commits": Talk(
        [*three(), tx("BEGIN"), ack("A", transaction="t"), ack("B", transaction="t"), tx("COMMIT"), broken(), *look()]
    ),
    "prefetch and a transaction": Talk(
        [
            *three("client-individual", activemq__prefetchSize="1"),
            tx("BEGIN"),
            ack("A", transaction="t"),
            ack("B", transaction="t"),
            tx("ABORT"),
            broken(),
            *look(),
        ]
    ),
    "prefetch and a cumulative transaction": Talk(
        [
            *three(activemq__prefetchSize="1"),
            tx("BEGIN"),
            ack("A", transaction="t"),
            ack("B", transaction="t"),
            tx("COMMIT"),
            broken(),
            *look(),
        ]
    ),
    "two transactions at once": Talk(
        [
            *three("client-individual"),
            tx("BEGIN"),
            tx("BEGIN", "u"),
            ack("A", transaction="t"),
            ack("B", transaction="u"),
            tx("ABORT"),
            tx("COMMIT", "u"),
            broken(),
            *look(),
        ]
    ),
    "two cumulative transactions at once": Talk(
        [
            *three(),
            tx("BEGIN"),
            tx("BEGIN", "u"),
            ack("A", transaction="t"),
            ack("B", transaction="u"),
            tx("ABORT"),
            tx("COMMIT", "u", receipt="c"),
            broken(),
            *look(),
        ]
    ),
    "sends in a transaction": Talk(
        [
            connect(),
            subscribe("auto"),
            tx("BEGIN"),
            send(transaction="t", receipt="s"),
            send("B", transaction="t"),
            tx("COMMIT", receipt="c"),
            tx("BEGIN", "u"),
            send("C", transaction="u"),
            tx("ABORT", "u", receipt="d"),
        ]
    ),
    "a disconnect in a transaction": Talk([connect(), tx("BEGIN"), send(transaction="t"), DISCONNECT, *look()]),
    "an acknowledgement and a send in a transaction": Talk(
        [
            *three(),
            tx("BEGIN"),
            ack("A", transaction="t"),
            send("D", "/queue/R", transaction="t"),
            tx("COMMIT"),
            broken(),
            *look(Q, "/queue/R"),
        ]
    ),
    "errors of transactions": Talk(
        [
            connect(),
            frame("BEGIN", receipt="1"),
            tx("BEGIN"),
            tx("BEGIN", receipt="2"),
            frame("COMMIT", receipt="3"),
            tx("COMMIT", "x", receipt="4"),
            tx("ABORT", "x", receipt="5"),
            frame("ABORT", receipt="6"),
            send(transaction="x", receipt="7"),
            subscribe(),
            send(),
            ack("A", transaction="x", receipt="8"),
            tx("COMMIT", receipt="9"),
            tx("COMMIT", receipt="10"),
        ]
    ),
    # -- subscriptions
    "a selector": Talk(
        [
            connect(),
            *(send(body, colour=colour) for body, colour in (("A", "red"), ("B", "blue"), ("C", "red"))),
            subscribe("client", selector="colour = 'red'"),
            broken(),
            *look(),
        ]
    ),
    "a selector compares texts with numbers": Talk(
        [
            connect(),
            *(send(body, size=size) for body, size in (("A", "3"), ("B", "10"), ("C", "x"), ("D", "4.5"))),
            send("E"),
            subscribe("client", selector="size > 3"),
            subscribe("client", number="2", selector="size <> 10"),
        ]
    ),
    "a selector with decimals, truths and more": Talk(
        [
            connect(),
            *(
                send(body, size=size, ok=ok)
                for body, size, ok in (("A", "3", "true"), ("B", "4.5", "false"), ("C", "x", "TRUE"))
            ),
            subscribe("client", number="1", selector="size > 3.5"),
            subscribe("client", number="2", selector="ok = TRUE AND size BETWEEN 1 AND 5"),
            *look(),
        ]
    ),
    "a selector on headers of JMS": Talk(
        [
            connect(),
            send("A", priority="7"),
            send("B", type="t", correlation_id="c"),
            send("C", persistent=False),
            subscribe("client", selector="JMSPriority = 7"),
            subscribe("client", number="2", selector="JMSType = 't' AND JMSCorrelationID = 'c'"),
            subscribe("client", number="3", selector="JMSDeliveryMode = 'NON_PERSISTENT'"),
        ]
    ),
    "a selector that cannot be read": Talk([connect(), subscribe(selector="size >", receipt="s"), send(), *look()]),
    "prefetch": Talk([*three(activemq__prefetchSize="1"), ack("A"), nack("B"), broken(), *look()]),
    "prefetch 2 and individual": Talk(
        [*three("client-individual", activemq__prefetchSize="2"), ack("B"), broken(), *look()]
    ),
    "prefetch 0": Talk([*three(activemq__prefetchSize="0"), broken(), *look()]),
    "a subscription with a receipt": Talk([*three(receipt="s"), ack("C", receipt="a")]),
    "an exclusive consumer": Talk(
        [connect(), subscribe(number="1"), subscribe(number="2", activemq__exclusive="true"), send(), send("B")]
    ),
    "two consumers in turn": Talk(
        [
            connect(),
            subscribe("client", number="1"),
            subscribe("client", number="2"),
            *(send(body) for body in "ABCD"),
            frame("UNSUBSCRIBE", id="1"),
        ]
    ),
    "a consumer of a higher priority": Talk(
        [connect(), subscribe(number="1"), subscribe(number="2", activemq__priority="5"), send(), send("B")]
    ),
    "a composite destination": Talk([connect(), send(to="/queue/Q,/queue/R"), *look(Q, "/queue/R")]),
    "a pattern": Talk(
        [connect(), subscribe(to="/queue/P.>"), send(to="/queue/P.a"), send("B", "/queue/P.b.c"), nack("A"), *look(DLQ)]
    ),
    "a browser": Talk([*three("auto", browser="true"), *look()]),
    "a browser of an empty queue": Talk([connect(), subscribe("auto", browser="true"), send()]),
    "a topic": Talk(
        [
            connect(),
            send(to="/topic/T"),
            subscribe(to="/topic/T"),
            send("B", "/topic/T"),
            nack("B"),
            broken(),
            *look("/topic/T", DLQ),
        ]
    ),
    "a virtual topic": Talk(
        [
            connect(),
            subscribe(to="/queue/Consumer.A.VirtualTopic.T"),
            send(to="/topic/VirtualTopic.T"),
            nack("A"),
            *look(DLQ),
        ]
    ),
    "a temporary queue and a reply": Talk(
        [
            connect(),
            subscribe("auto", "/temp-queue/mine", number="9"),
            send(reply_to="/temp-queue/mine"),
            connect(on="b"),
            subscribe("auto", on="b"),
            send("yes", "<reply-to of A>", "b", persistent=False),
        ]
    ),
    "a message group": Talk(
        [
            connect(),
            subscribe("client", number="1"),
            subscribe("client", number="2"),
            *(send(body, JMSXGroupID=group) for body, group in (("A", "x"), ("B", "x"), ("C", "y"))),
            send("D"),
        ]
    ),
    # -- durable subscriptions
    "a durable subscription": Talk(
        [
            connect(client_id="me"),
            subscribe(to="/topic/T", activemq__subscriptionName="s", receipt="1"),
            DISCONNECT,
            connect(on="b"),
            send(to="/topic/T", on="b"),
            connect(client_id="me", on="c"),
            subscribe(to="/topic/T", on="c", activemq__subscriptionName="s"),
            nack("A", "c"),
            frame("UNSUBSCRIBE", on="c", id="1", receipt="2"),
            *look(DLQ),
        ]
    ),
    "a durable subscription is acknowledged": Talk(
        [
            connect(client_id="me"),
            subscribe(to="/topic/T", activemq__subscriptionName="s"),
            send(to="/topic/T"),
            send("B", "/topic/T"),
            ack("A"),
            DISCONNECT,
            connect(client_id="me", on="c"),
            subscribe(to="/topic/T", on="c", activemq__subscriptionName="s"),
        ]
    ),
    "a durable subscription ends": Talk(
        [
            connect(client_id="me"),
            subscribe(to="/topic/T", activemq__subscriptionName="s"),
            with_headers(frame("UNSUBSCRIBE", id="1", receipt="1"), **{"activemq.subscriptionName": "s"}),
            frame("UNSUBSCRIBE", id="1", receipt="2"),
            with_headers(frame("UNSUBSCRIBE", id="1", receipt="3"), **{"activemq.subscriptionName": "s"}),
            send(to="/topic/T"),
            subscribe(to="/topic/T", activemq__subscriptionName="s", receipt="4"),
            with_headers(frame("UNSUBSCRIBE", id="5", receipt="5"), **{"activemq.subscriptionName": "never"}),
        ]
    ),
    "a durable subscription is in use": Talk(
        [
            connect(client_id="me"),
            subscribe(to="/topic/T", activemq__subscriptionName="s"),
            subscribe(to="/topic/T", number="2", activemq__subscriptionName="s", receipt="r"),
        ]
    ),
    "a durable subscription to a queue": Talk(
        [connect(client_id="me"), subscribe(activemq__subscriptionName="s", receipt="r")]
    ),
    "a client-id is taken": Talk([connect(client_id="me"), connect(client_id="me", on="b")]),
    "1.0 and a durable subscription": Talk(
        [
            connect("1.0", client_id="me"),
            frame("SUBSCRIBE", destination="/topic/T", ack="client", activemq__subscriptionName="s"),
            DISCONNECT,
            connect("1.0", on="b"),
            send(to="/topic/T", on="b"),
            connect("1.0", client_id="me", on="c"),
            frame("SUBSCRIBE", on="c", destination="/topic/T", ack="client", activemq__subscriptionName="s"),
        ]
    ),
    # -- messages
    "what a message carries": Talk(
        [
            connect(),
            send(
                "A",
                type="t",
                correlation_id="c",
                reply_to="/queue/R",
                priority="7",
                content_type="text/x",
                own="1",
                redelivered="true",
                subscription="x",
                message_id="x",
                ack="x",
                timestamp="5",
            ),
            *look(),
            subscribe("auto", number="3"),
        ]
    ),
    "text, bytes and a given kind": Talk(
        [
            connect(),
            send("A", content_length="1"),
            send("B", amq_msg_type="text", content_length="1"),
            send("C", amq_msg_type="bytes"),
            send("D", amq_msg_type="map", receipt="r"),
            send(""),
            send("ü"),
            *look(),
        ]
    ),
    "bytes with a null": Talk([connect(), send("A\0B", content_length="3"), subscribe("auto")]),
    "headers with colons and lines": Talk(
        [
            connect(),
            send("A", own="a\\cb\\nc\\\\d\\re\\tf"),
            *look(Q),
            connect("1.0", on="b"),
            send("B", on="b", own="a\\cb"),
            connect("1.1", on="c"),
            subscribe("auto", on="c"),
            send("C", own="a\\rb:c", on="c"),
        ]
    ),
    "a header given twice": Talk([connect(), raw("SEND\ndestination:/queue/Q\nown:1\nown:2\n\nA\0"), *look(Q)]),
    "blanks around headers": Talk(
        [
            connect("1.0"),
            raw("SEND\ndestination: /queue/Q \nown: 1 \n\nA\0"),
            connect("1.2", on="b"),
            raw("SEND\ndestination: /queue/Q \nown: 1 \n\nB\0", "b"),
            *look(Q),
        ]
    ),
    "lines of CRLF": Talk(
        [
            connect("1.2"),
            raw("SEND\r\ndestination:/queue/Q\r\nown:1\r\n\r\nA\0\r\n\r\nSEND\ndestination:/queue/Q\n\nB\0"),
            *look(Q),
        ]
    ),
    "expires": Talk(
        [
            connect(),
            send("A", expires="<now+400>"),
            send("B", expires="0"),
            send("C", expires="<now+400>", persistent=False),
            wait(700),
            subscribe(),
            *look(DLQ),
        ]
    ),
    "expired when it was sent": Talk([connect(), send("A", expires="<now+-500>"), subscribe(), *look(DLQ)]),
    "expires while a client has it": Talk(
        [connect(), subscribe(), send("A", expires="<now+400>"), wait(700), ack("A", receipt="r"), *look()]
    ),
    "expires while a client has it, who goes": Talk(
        [connect(), subscribe(), send("A", expires="<now+400>"), wait(700), broken(), *look()]
    ),
    "a rejected message with an expiration": Talk(
        [connect(), subscribe(), send("A", expires="<now+60000>", priority="2"), nack("A"), *look()]
    ),
    "priorities": Talk(
        [
            connect(),
            *(send(body, priority=number) for body, number in (("A", "1"), ("B", "9"), ("C", "12"), ("D", "-1"))),
            subscribe("auto"),
        ]
    ),
    "a priority that is no number": Talk([connect(), send("A", priority="high", receipt="r"), *look()]),
    "an expiration that is no number": Talk([connect(), send("A", expires="soon", receipt="r")]),
    "a delay": Talk(
        [connect(), subscribe(), with_headers(send("A"), AMQ_SCHEDULED_DELAY="2500"), send("B"), wait(3000)],
        attributes='schedulerSupport="true"',
    ),
    "a delay without scheduler": Talk(
        [connect(), subscribe(), with_headers(send("A"), AMQ_SCHEDULED_DELAY="800"), send("B")]
    ),
    "a delay that is no number": Talk(
        [
            connect(),
            subscribe(),
            with_headers(send("C", receipt="t"), AMQ_SCHEDULED_DELAY="0"),
            send("D"),
            with_headers(send("A", receipt="r"), AMQ_SCHEDULED_DELAY="soon"),
        ],
        attributes='schedulerSupport="true"',
    ),
    "a delay that is negative": Talk(
        [connect(), with_headers(send("B", receipt="s"), AMQ_SCHEDULED_DELAY="-5"), *look()],
        attributes='schedulerSupport="true"',
    ),
    "names of JMS in headers": Talk(
        [
            connect(),
            with_headers(send("A"), JMSType="t", JMSCorrelationID="c", JMSPriority="7", JMSXGroupID="g"),
            with_headers(send("B"), JMSReplyTo="/queue/R"),
            with_headers(send("C"), JMSExpiration="5", JMSDeliveryMode="1"),
            *look(),
        ]
    ),
    "a dead letter is rejected": Talk(
        [connect(), subscribe(), send(), nack("A"), subscribe(to=DLQ, number="2"), nack("A"), *look()]
    ),
    "a redelivered message is rejected": Talk(
        [connect(), subscribe(), send(), broken(), connect(on="b"), subscribe(on="b"), nack("A", "b"), *look()]
    ),
    "redelivered as often as clients go": Talk(
        [
            connect(),
            send(),
            *(step for name in "bcdefghi" for step in (connect(on=name), subscribe(on=name), broken(name))),
            *look(),
        ]
    ),
    # -- strategies and plugins
    "not persistent with a strategy for those": Talk(
        [connect(), subscribe(), send(persistent=False), nack("A"), *look()], inner=NON_PERSISTENT_TOO
    ),
    "an individual strategy": Talk([connect(), subscribe(), send(), nack("A"), *look(Q, "/queue/DLQ.Q")], OWN_QUEUES),
    "a discarding strategy": Talk(
        [connect(), subscribe(), send(), nack("A"), *look()], inner=policies(strategy("<discarding/>"))
    ),
    "the redelivery plugin": Talk(
        [connect(), subscribe(), send(), nack("A"), wait(2500), nack("A"), *look()],
        PLUGIN,
        'schedulerSupport="true"',
    ),
    # -- frames and receipts
    "receipts": Talk(
        [
            connect(),
            send(receipt="1"),
            subscribe(receipt="2"),
            tx("BEGIN", receipt="3"),
            ack("A", transaction="t", receipt="4"),
            tx("COMMIT", receipt="5"),
            frame("UNSUBSCRIBE", id="1", receipt="6"),
            frame("DISCONNECT", receipt="7"),
        ]
    ),
    "a disconnect without receipt": Talk([connect(), frame("DISCONNECT")]),
    "versions": Talk(
        [
            connect("1.0,1.1,1.2"),
            connect("1.1,1.0", "b"),
            frame("CONNECT", on="c"),
            frame("STOMP", on="d", accept_version="1.1", host="x"),
            connect("1.1,2.0", "e"),
            connect("1.2 ,1.1", "f"),
        ]
    ),
    "a version that is not spoken": Talk([connect("2.0")]),
    "a login, a session and a request": Talk(
        [connect(login="me", passcode="secret", client_id="mine", request_id="77"), connect(on="b", receipt="9")]
    ),
    "connected twice": Talk([connect(), connect(), send(receipt="r")]),
    "not connected": Talk([send(receipt="r"), frame("BEGIN", transaction="t"), connect(), send(receipt="s")]),
    "a frame that there is not": Talk([connect(), frame("HELLO", receipt="r"), send(receipt="s")]),
    "a send without destination": Talk([connect(), frame("SEND", "A", receipt="r"), frame("SEND", "B")]),
    "a send to a bare name": Talk([connect(), send(to="Q", receipt="r"), send("B", "", receipt="s"), *look()]),
    "a subscription without destination": Talk(
        [
            connect(),
            frame("SUBSCRIBE", id="1", receipt="r"),
            frame("SUBSCRIBE", destination=Q, receipt="s"),
            frame("SUBSCRIBE", id="1", destination="", receipt="t"),
        ]
    ),
    "unsubscribed from nothing": Talk(
        [connect(), frame("UNSUBSCRIBE", id="5", receipt="r"), frame("UNSUBSCRIBE", destination=Q, receipt="s")]
    ),
    "the same id twice": Talk(
        [
            connect(),
            subscribe("client"),
            subscribe("client", "/queue/R"),
            send(),
            send("B", "/queue/R"),
            frame("UNSUBSCRIBE", id="1", receipt="1"),
            frame("UNSUBSCRIBE", id="1", receipt="2"),
            send("C"),
        ]
    ),
    "a body that is too long": Talk([connect(), raw("SEND\ndestination:/queue/Q\ncontent-length:1\n\nABC\0")]),
    "a length that is no number": Talk([connect(), raw("SEND\ndestination:/queue/Q\ncontent-length:x\n\nABC\0")]),
    "a length that is negative": Talk([connect(), raw("SEND\ndestination:/queue/Q\ncontent-length:-1\n\nABC\0")]),
    "a header without colon": Talk([connect(), raw("SEND\ndestination:/queue/Q\nown\n\nA\0"), *look(Q)]),
    "small letters": Talk([connect(), raw("send\ndestination:/queue/Q\n\nA\0")]),
    "a short SUB": Talk([connect(), raw("SUB\ndestination:/queue/Q\nid:1\n\n\0"), send(), raw("UNSUB\nid:1\n\n\0")]),
    "heart-beats": Talk([connect(heart_beat="0,400"), wait(1200), send(receipt="r")]),
    "heart-beats that do not come": Talk([connect(heart_beat="400,0"), wait(1800)]),
    "heart-beats that come": Talk(
        [connect(heart_beat="2500,0"), *(step for _ in range(4) for step in (wait(400), raw("\n"))), send(receipt="r")]
    ),
    "heart-beats that cannot be": Talk([connect(heart_beat="x"), connect(heart_beat="1,x", on="b")]),
}


def as_recorded(step: Step) -> dict[str, Any]:
    """Return a step as a recording has it."""
    return {name: value for name, value in step.items() if value not in ("", {})}
