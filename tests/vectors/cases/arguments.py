"""Argument or policy: which value is in force, as the queue behaves."""

from __future__ import annotations

from tests.vectors.build import (
    effective,
    exchange,
    fan,
    letters,
    nacked,
    operator_policy,
    policy,
    probe,
    publish,
    queue,
    quorum,
)

WINS = "guide Dead Letter Exchanges, Configuration Using Policies; rabbit_amqqueue_process.erl process_args_policy"
MIN = "guide Policies; rabbit_queue_type_util.erl args_policy_lookup; rabbit_amqqueue_process.erl process_args_policy"
LIMIT = "rabbit_quorum_queue.erl resolve_delivery_limit; guide Quorum Queues"

EXCHANGES = [*fan("by-argument", "dlq"), *fan("by-policy", "dlq"), queue("dlq")]
DLX, DLRK = "dead-letter-exchange", "dead-letter-routing-key"


CASES = [
    *(
        effective(
            f"argument-over-policy-dlx-{kind}",
            f"The dead-letter arguments of a {kind} queue win over a policy.",
            WINS,
            policy("p", "^q$", {DLX: "by-policy", DLRK: "policy-key"}),
            EXCHANGES,
            queue("q", type=kind, dlx="by-argument", dlrk="argument-key"),
            probe("q", DLX),
            probe("q", DLRK),
        )
        for kind in ("classic", "quorum")
    ),
    effective(
        "policy-alone-dlx",
        "A policy alone gives dead-letter exchange and routing key.",
        WINS,
        policy("p", "^q$", {DLX: "by-policy", DLRK: "policy-key"}),
        EXCHANGES,
        queue("q"),
        probe("q", DLX),
        probe("q", DLRK),
    ),
    *(
        effective(
            f"dlx-by-argument-key-by-policy-{kind}",
            "Each key on its own: exchange by argument and routing key by policy are both in force.",
            WINS,
            policy("p", "^q$", {DLX: "by-policy", DLRK: "policy-key"}),
            EXCHANGES,
            queue("q", type=kind, dlx="by-argument"),
            probe("q", DLX),
            probe("q", DLRK),
        )
        for kind in ("classic", "quorum")
    ),
    effective(
        "dlrk-by-policy-without-dlx",
        "A routing key without any dead-letter exchange does nothing.",
        WINS,
        policy("p", "^q$", {DLRK: "dlq"}),
        EXCHANGES,
        queue("q"),
        probe("q", DLX),
    ),
    letters(
        "dlrk-argument-without-dlx-argument",
        "The routing-key argument without the exchange argument is refused, whatever policies say.",
        "rabbit_amqqueue.erl check_dlxrk_arg",
        policy("p", "^q$", {DLX: "by-policy"}),
        EXCHANGES,
        queue("q", dlrk="k"),
        publish("", "q"),
        nacked("q"),
    ),
    *(
        effective(
            f"{key}-smaller-{where}-{kind}",
            f"Of argument and policy for {key} the smaller is in force.",
            MIN,
            policy("p", "^q$", {key: low if where == "policy" else high}),
            queue("q", type=kind, **{name: high if where == "policy" else low}),
            probe("q", key, low, high) if key in ("message-ttl", "expires") else probe("q", key),
        )
        for key, name, low, high in (
            ("message-ttl", "ttl", 100, 60000),
            ("max-length", "length", 2, 5),
            ("expires", "expires", 200, 60000),
        )
        for where in ("policy", "argument")
        for kind in ("classic", "quorum")
    ),
    effective(
        "max-length-bytes-smaller-policy-classic",
        "Of argument and policy for max-length-bytes the smaller is in force.",
        MIN,
        policy("p", "^q$", {"max-length-bytes": 3}),
        queue("q", max_length_bytes=6),
        probe("q", "max-length-bytes"),
    ),
    effective(
        "max-length-operator-caps-argument",
        "An operator policy caps an argument.",
        MIN,
        operator_policy("cap", "^q$", {"max-length": 3}),
        queue("q", length=5),
        probe("q", "max-length"),
    ),
    effective(
        "max-length-of-three-sources",
        "Of argument, policy and operator policy the smallest is in force.",
        MIN,
        policy("p", "^q$", {"max-length": 4}),
        operator_policy("cap", "^q$", {"max-length": 6}),
        queue("q", length=5),
        probe("q", "max-length"),
    ),
    *(
        effective(
            f"overflow-argument-{argument}-policy-{other}-{kind}",
            "For overflow the argument wins on classic queues and the policy on quorum queues.",
            "rabbit_amqqueue_process.erl process_args_policy; rabbit_quorum_queue.erl gather_policy_config",
            policy("p", "^q$", {"overflow": other}),
            queue("q", type=kind, dlx="", dlrk="dlq", length=1, overflow=argument),
            queue("dlq"),
            probe("q", "overflow"),
        )
        for argument, other in (("drop-head", "reject-publish"), ("reject-publish", "drop-head"))
        for kind in ("classic", "quorum")
    ),
    *(
        effective(
            f"overflow-{mode}-{kind}",
            f"overflow {mode} on a {kind} queue.",
            "guide Queue Length Limit; rabbit_quorum_queue.erl overflow",
            queue("q", type=kind, dlx="", dlrk="dlq", length=1, overflow=mode),
            queue("dlq"),
            probe("q", "overflow"),
        )
        for mode in ("drop-head", "reject-publish", "reject-publish-dlx")
        for kind in ("classic", "quorum")
    ),
    effective(
        "overflow-by-policy-classic",
        "A policy alone sets overflow.",
        MIN,
        policy("p", "^q$", {"overflow": "reject-publish-dlx"}),
        queue("q", dlx="", dlrk="dlq", length=1),
        queue("dlq"),
        probe("q", "overflow"),
    ),
    *(
        effective(
            f"delivery-limit-argument-{argument}-policy-{by_policy}".replace("--", "-minus-"),
            "Of two limits the smaller; from 4.0, if one is negative, the larger.",
            LIMIT,
            policy("p", "^q$", {"delivery-limit": by_policy}),
            quorum("q", limit=argument),
            probe("q", "delivery-limit"),
        )
        for argument, by_policy in ((2, 4), (4, 2), (-1, 3), (3, -1), (-1, -1))
    ),
    effective(
        "delivery-limit-policy-alone",
        "A policy alone sets the limit.",
        LIMIT,
        policy("p", "^q$", {"delivery-limit": 2}),
        quorum("q"),
        probe("q", "delivery-limit"),
    ),
    effective(
        "delivery-limit-policy-unlimited",
        "From 4.0 a policy of -1 alone is unlimited; before it is refused.",
        LIMIT,
        policy("p", "^q$", {"delivery-limit": -1}),
        quorum("q"),
        probe("q", "delivery-limit"),
    ),
    effective(
        "delivery-limit-argument-of-wrong-type",
        "An argument that is no integer: no limit on 3.8 to 4.0, not even the default; on 4.3 the default.",
        LIMIT,
        quorum("q", limit="five"),
        probe("q", "delivery-limit"),
    ),
    letters(
        "alternate-exchange-argument-over-policy",
        "The alternate-exchange argument of an exchange wins over a policy.",
        "rabbit_exchange.erl; guide Alternate Exchanges",
        policy("p", "^dlx$", {"alternate-exchange": "by-policy"}, apply_to="exchanges"),
        *fan("by-policy", "policy-queue"),
        *fan("by-argument", "argument-queue"),
        exchange("dlx", "direct", ae="by-argument"),
        queue("policy-queue"),
        queue("argument-queue"),
        queue("q", dlx="dlx"),
        publish("", "q"),
        nacked("q"),
    ),
    letters(
        "alternate-exchange-by-policy",
        "A policy gives an exchange its alternate exchange.",
        "rabbit_exchange.erl; guide Alternate Exchanges",
        policy("p", "^dlx$", {"alternate-exchange": "by-policy"}, apply_to="exchanges"),
        *fan("by-policy", "policy-queue"),
        exchange("dlx", "direct"),
        queue("policy-queue"),
        queue("q", dlx="dlx"),
        publish("", "q"),
        nacked("q"),
    ),
]
