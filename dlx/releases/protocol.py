"""The rows about AMQP on the wire: versions, sizes, texts."""

from __future__ import annotations

from typing import Literal

from dlx.releases.rows import changed, since


class ProtocolRows:
    """AMQP on the wire: versions, sizes, texts."""

    max_message_size: int = since(
        "4.0", 16_777_216, before=134_217_728,
        meaning="The largest message body that a server takes by default, in bytes.",
        evidence="live; rabbit.app.src or prelaunch configuration max_message_size",
    )
    delivery_mode_checked: bool = since(
        "3.13", False, before=True,
        meaning="A publish with a delivery_mode other than 1 and 2 is refused.",
        evidence="live; rabbit_basic.erl is_message_persistent (3.10.8)",
    )
    mandatory_publishes_numbered: bool = since(
        "3.10", False, before=True, undecided=("3.9",),
        meaning=(
            "A mandatory publish takes a number before confirm.select, too: the first publish after it is confirmed by"
            " a higher one."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live; rabbit_channel.erl handle_method basic.publish (3.8.9)",
    )
    publisher_checked: Literal["before the message", "after the message"] = since(
        "4.0", "after the message", before="before the message",
        meaning=(
            "When a publish's topic permission and user_id are checked: before its expiration and its CC and BCC"
            " headers, or after them."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live, the others by source: rabbit_channel.erl handle_method basic.publish",
    )
    frame_max_min: int = since(
        "4.1", 8192, before=4096,
        meaning=(
            "The smallest frame_max that a client may settle on, in bytes; it is also the limit until the client has."
        ),
        evidence="live; rabbit_framing.hrl FRAME_MIN_SIZE",
    )
    content_size_checked: bool = since(
        "4.2", True, before=False,
        meaning=(
            "Content longer than its header says, or than 512 MiB, ends the connection; otherwise its channel goes on"
            " waiting."
        ),
        evidence="live; rabbit_command_assembler.erl process",
    )
    speaks_amqp_1_0: bool = since(
        "4.0", True, before=False,
        meaning=(
            "The server speaks AMQP 1.0 without a plugin, and answers a client of an unknown protocol with the header"
            " of AMQP 1.0."
        ),
        evidence="live; rabbit_reader.erl refuse_connection",
    )
    amqp10_sasl_mechanisms: tuple[str, ...] = since(
        "4.0", ("PLAIN", "AMQPLAIN", "ANONYMOUS"), before=(),
        meaning="The mechanisms that a client of AMQP 1.0 may log in with, in the order of the server's offer.",
        evidence="4.0 and 4.3 live; rabbit_amqp_reader.erl auth_mechanisms",
    )
    amqp10_first_ids: tuple[int, int] = since(
        "4.2", (0, 0), before=(2**32 - 4, 2**32 - 5),
        meaning="The next-outgoing-id of a new session of AMQP 1.0, and the delivery-count of a new link to a client.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl INITIAL_OUTGOING_TRANSFER_ID, INITIAL_DELIVERY_COUNT",
    )
    amqp10_faults_of_links: Literal["end the session", "detach the link"] = since(
        "4.2", "detach the link", before="end the session",
        meaning="What a fault in an attach or in a message of AMQP 1.0 does, unless a permission is missing.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl link_error",
    )
    amqp10_addresses: tuple[int, ...] = since(
        "4.3", (2,), before=(2, 1),
        meaning="The versions of addresses that links of AMQP 1.0 may have.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl amqp_address_v1",
    )
    amqp10_refusals_say_why: bool = since(
        "4.3", True, before=False,
        meaning="The outcome rejected of a publish by AMQP 1.0 names the queue and the reason.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl rejected",
    )
    amqp10_link_capabilities: bool = since(
        "4.3", True, before=False,
        meaning="The attach of a link of AMQP 1.0 offers capabilities of the queue and says how it distributes.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl link_capabilities, effective_dist_mode",
    )
    amqp10_dynamic_nodes: tuple[str, ...] = changed(
        {"4.1": ("temporary-queue",), "4.2": ("temporary-queue", "rabbitmq:volatile-queue")}, before=(),
        meaning="The capabilities with which a terminus of AMQP 1.0 may be dynamic.",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl ensure_source, ensure_target",
    )
    amqp10_links_say_active: bool = since(
        "4.3", True, before=False,
        meaning="A flow of a link of AMQP 1.0 from a quorum queue says whether it is active (rabbitmq:active).",
        evidence="4.0 and 4.3 live; rabbit_amqp_session.erl consumer_active_changed",
    )
    amqp10_deliveries_time_out: bool = since(
        "4.3", True, before=False,
        meaning=(
            "A quorum queue takes back what a client of AMQP 1.0 does not settle in time; the link stays, but gets"
            " nothing until the client settles it."
        ),
        evidence="4.3 live, 4.0 to 4.2 by source: rabbit_amqp_session.erl handle_stashed_consumer_timeout",
    )
    amqp10_spells_out_false: bool = since(
        "4.2", True, before=False,
        meaning="Transfers and flows of AMQP 1.0 say more, drain and echo where they are false, too.",
        evidence="4.0 and 4.3 live",
    )
    management_takes_tokens: bool = since(
        "4.1", True, before=False,
        meaning="A client of AMQP 1.0 may renew its token: PUT /auth/tokens at the node /management.",
        evidence="rabbit_amqp_management.erl",
    )
    management_reads_need_permissions: bool = since(
        "4.3", True, before=False,
        meaning="GET of a queue at the node /management of AMQP 1.0 needs a permission for it.",
        evidence="rabbit_amqp_management.erl check_resource_any_access",
    )
    purge_of_missing_queue: str = since(
        "4.1", "404", before="400",
        meaning="With which status /management of AMQP 1.0 refuses to purge a queue that does not exist.",
        evidence="4.0 and 4.3 live; rabbit_amqp_management.erl",
    )
    accepts_amqp_0_8: bool = since(
        "4.0", False, before=True,
        meaning="A client that asks for AMQP 0-8 is served AMQP 0-9-1.",
        evidence="live; rabbit_reader.erl handshake",
    )
    sasl_mechanisms: tuple[str, ...] = changed(
        {
            "3.9": ("AMQPLAIN", "PLAIN"),
            "3.13": ("PLAIN", "AMQPLAIN"),
            "4.0": ("PLAIN", "AMQPLAIN", "ANONYMOUS"),
            "4.3": ("PLAIN", "ANONYMOUS", "AMQPLAIN"),
        },
        before=("PLAIN", "AMQPLAIN"),
        meaning=(
            "The mechanisms that a client may log in with, in the order in which the server offers them. ANONYMOUS logs"
            " in as guest."
        ),
        evidence="live; rabbit_auth_mechanism_anonymous.erl (4.0 on)",
    )
    amqplain_takes_byte_arrays: bool = since(
        "3.13", True, before=False,
        meaning="AMQPLAIN takes user and password both as byte arrays; otherwise one of them must be a string.",
        evidence="3.8, 3.10, 4.0 and 4.3 live, the others by source: rabbit_auth_mechanism_amqplain.erl",
    )
    amqplain_password_that_is_no_text: Literal["drops the connection", "refused"] = since(
        "3.10", "refused", before="drops the connection",
        meaning=(
            "How AMQPLAIN answers a password that is, say, a number, for an existing user: it refuses the login, or"
            " fails and drops the connection."
        ),
        evidence="3.8, 3.10, 4.0 and 4.3 live",
        undecided=("3.9",),
    )
    error_text_encoding: Literal["bytes", "Latin-1", "UTF-8"] = changed(
        {"3.12": "Latin-1", "4.0": "UTF-8"}, before="bytes",
        meaning=(
            "How an error text shows what a client sent: its bytes as they are; or its characters in Latin-1, where"
            " any beyond that ends the connection with 541 INTERNAL_ERROR; or its characters in UTF-8. Bytes that are"
            " not UTF-8 are read as Latin-1."
        ),
        evidence=(
            "live; rabbit_binary_generator.erl amqp_exception_explanation, rabbit_misc.erl format, rabbit_reader.erl"
            " frame_error"
        ),
    )
    surrogates_are_utf_8: bool = since(
        "4.3", False, before=True,
        meaning="A name that encodes surrogates passes as UTF-8.",
        evidence="live; rabbit_binary_parser.erl validate_utf8; may be Erlang's doing: 4.1 and 4.2 were seen on OTP 27",
        undecided=("4.1", "4.2"),
    )
