"""A scenario for the dead-letter queue handler, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from simulator.scenario.scenario_errors import ScenarioError, convert_part
from simulator.systems.ibm_mq.character_sets import UTF_8, UnknownCharacterSetError, codec_of
from simulator.systems.ibm_mq.constants import number_of
from simulator.systems.ibm_mq.keyword_values import FAMILIES, LENGTHS, meant
from simulator.systems.ibm_mq.mqdlh import FORMAT_DEAD, LITTLE_ENDIAN, DeadMessage, Mqdlh, MqdlhError, write_mqdlh
from simulator.systems.ibm_mq.parser import parse
from simulator.systems.ibm_mq.rules_table import USUAL_INPUTQ, ParsedTable, RulesTableError
from simulator.systems.ibm_mq.unloaded_queue import UnloadedQueueError, read_unloaded

Number = Annotated[int, Meta(ge=0, le=999_999_999)] | str
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
# Outcomes of a put that a scenario may name, beside reason codes.
OK_NAMES = ("OK", "MQRC_NONE")
# The fields of a message have the names that they have in a rules table.
_KEYWORDS = {keyword.lower(): keyword for keyword in (*LENGTHS, *FAMILIES)}
_ATTRIBUTES = {name.lower(): name for name in ("BOTHRESH", "BOQNAME", "HARDENBO")}


class MessageSpec(Struct, forbid_unknown_fields=True, kw_only=True, rename=lambda name: _KEYWORDS.get(name, name)):
    """A message: its fields by the names that they have in a rules table, when it arrives, and how long it lives."""

    name: str = ""
    time_s: Seconds = 0
    expiry_s: Annotated[float, Meta(ge=0.1, le=99_999_999.9)] | None = None
    reason: Number = 0
    destq: str = ""
    destqm: str = ""
    format: str = "MQSTR"
    applidat: str = ""
    applname: str = ""
    appltype: Number = 0
    feedback: Number = 0
    msgtype: Number = 8
    persist: Number = 0
    replyq: str = ""
    replyqm: str = ""
    userid: str = ""
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    msg_id: str | None = None
    correl_id: str = ""
    body: str = ""
    encoding: int = LITTLE_ENDIAN
    coded_char_set_id: int = UTF_8
    data_hex: str | None = None


class Outage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A time in which puts to a queue fail. Without ``until_s`` it does not end."""

    queue: str
    queue_manager: str | None = None
    from_s: Seconds = 0
    until_s: Seconds | None = None
    result: Number


class Removal(Struct, forbid_unknown_fields=True, kw_only=True):
    """Another application takes a message from the dead-letter queue."""

    time_s: Seconds
    message: str


class SentMessage(Struct, forbid_unknown_fields=True, kw_only=True, rename=lambda name: _KEYWORDS.get(name, name)):
    """A message that is put to a queue with a consumer, and what the consumer does with it.

    Attributes:
        name: what the trace calls it.
        time_s: when it is put.
        fails: how many of its deliveries fail, before one is committed.
        how: the consumer backs out, ends with the message (``crash``), or keeps it and does nothing more (``hold``).
        persist: its persistence.
        priority: 0 to 9.
        expiry_s: its Expiry; ``None``: it lives for ever.
        discard: whether its Report has MQRO_DISCARD_MSG.
        body: its text.
    """

    name: str = ""
    time_s: Seconds = 0
    fails: Annotated[int, Meta(ge=0)] | Literal["always"] = 0
    how: Literal["backout", "crash", "hold"] = "backout"
    persist: Number = 0
    priority: Annotated[int, Meta(ge=0, le=9)] = 0
    expiry_s: Annotated[float, Meta(ge=0.1, le=99_999_999.9)] | None = None
    discard: bool = False
    body: str = ""


class ConsumedQueue(Struct, forbid_unknown_fields=True, kw_only=True, rename=lambda name: _ATTRIBUTES.get(name, name)):
    """A queue with a consumer.

    Attributes:
        name: its name.
        messages: what is put to it.
        bothresh: its backout threshold; 0: none.
        boqname: its backout queue; empty: none.
        hardenbo: whether it hardens backout counts, which matters on z/OS alone.
        mover: who compares BackoutCount with BOTHRESH: the IBM MQ classes for JMS, the application, or nobody.
        takes_s: how long a unit of work takes.
    """

    name: Annotated[str, Meta(min_length=1, max_length=48)]
    messages: list[SentMessage]
    bothresh: Annotated[int, Meta(ge=0, le=999_999_999)] = 0
    boqname: Annotated[str, Meta(max_length=48)] = ""
    hardenbo: bool = False
    mover: Literal["jms", "application", "nobody"] = "jms"
    takes_s: Seconds = 0


class Scenario(Struct, forbid_unknown_fields=True, kw_only=True):
    """A rules table, messages on the dead-letter queue, queues with consumers, and how puts end.

    ``messages`` may be the text of a file of ``dmpmqmsg``. Without a rules table no handler runs.
    """

    rules_table: str | list[str] | None = None
    messages: list[MessageSpec] | str = []
    queues: list[ConsumedQueue] = []
    put_results: list[Number] = []
    outages: list[Outage] = []
    removals: list[Removal] = []
    restarts_s: list[Seconds] = []
    queue_manager_restarts_s: list[Seconds] = []
    platform: Literal["distributed", "z/OS"] = "distributed"
    queue_manager: str = "QM1"
    dead_letter_queue: str = USUAL_INPUTQ
    delivery_sequence: Literal["PRIORITY", "FIFO"] = "PRIORITY"
    arguments: Annotated[list[str], Meta(max_length=2)] = []
    clock: Literal["ideal", "whole-seconds"] = "ideal"
    until_s: Seconds | None = None


def read_scenario(scenario: Mapping[str, Any]) -> Scenario:
    """Read a scenario. Raises ``ScenarioError`` for a field that is missing, unknown or of a wrong form."""
    return convert_part(scenario, Scenario)


def read_table(scenario: Scenario) -> ParsedTable | None:
    """Read the rules table of a scenario; a list holds its lines. ``None``: there is none. Raises ``ScenarioError``."""
    text = scenario.rules_table
    if text is None:
        if not scenario.queues:
            raise ScenarioError("rules_table", "expected a rules table, or queues with consumers in queues")
        return None
    try:
        return parse(text if isinstance(text, str) else "\n".join(text))
    except RulesTableError as error:
        raise ScenarioError("rules_table", str(error)) from None


class Arrival(Struct, frozen=True):
    """A message that arrives on the dead-letter queue.

    Attributes:
        name: what the scenario calls it.
        time_s: when it arrives, in seconds.
        expiry_s: what is left of its Expiry then; ``None``: it lives for ever.
        message: its MQMD and data.
    """

    name: str
    time_s: float
    expiry_s: float | None
    message: DeadMessage


def read_arrivals(scenario: Scenario) -> list[Arrival]:
    """Return the messages, in the order of the scenario. Raises ``ScenarioError``; no two have one name."""
    if isinstance(scenario.messages, str):
        return _unloaded(scenario.messages)
    names: set[str] = set()
    found = []
    for index, spec in enumerate(scenario.messages):
        name = spec.name or f"message {index + 1}"
        if name in names:
            raise ScenarioError(f"messages[{index}].name", f"expected a name of its own, got {name!r} again")
        names.add(name)
        found.append(Arrival(name, spec.time_s, spec.expiry_s, read_message(spec, index)))
    return found


def _unloaded(text: str) -> list[Arrival]:
    """Return the messages of an unloaded queue, which are there from the start."""
    try:
        messages = read_unloaded(text)
    except UnloadedQueueError as error:
        raise ScenarioError("messages", str(error)) from None
    return [
        Arrival(f"message {number}", 0, each.expiry_s, each.message) for number, each in enumerate(messages, start=1)
    ]


def read_message(spec: MessageSpec, index: int) -> DeadMessage:
    """Build a message, with an MQDLH unless ``data_hex`` says what its data is. Raises ``ScenarioError``."""
    where = f"messages[{index}]"
    numbers = {
        name: read_number(getattr(spec, name), f"{where}.{keyword}", FAMILIES[keyword])
        for name, keyword in _KEYWORDS.items()
        if keyword in FAMILIES
    }
    for name, keyword in _KEYWORDS.items():
        if keyword in LENGTHS and len(getattr(spec, name)) > LENGTHS[keyword]:
            problem = f"expected at most {LENGTHS[keyword]} characters, got {len(getattr(spec, name))}"
            raise ScenarioError(f"{where}.{keyword}", problem)
    return DeadMessage(
        data=_data(spec, numbers, where),
        format=FORMAT_DEAD,
        encoding=spec.encoding,
        coded_char_set_id=spec.coded_char_set_id,
        msg_id=f"message {index + 1}" if spec.msg_id is None else spec.msg_id,
        correl_id=spec.correl_id,
        msg_type=numbers["msgtype"],
        persistence=numbers["persist"],
        priority=spec.priority,
        feedback=numbers["feedback"],
        put_appl_type=numbers["appltype"],
        put_appl_name=spec.applname,
        user_identifier=spec.userid,
        appl_identity_data=spec.applidat,
        reply_to_q=spec.replyq,
        reply_to_q_mgr=spec.replyqm,
    )


def read_sent(sent: SentMessage, name: str, where: str) -> DeadMessage:
    """Build a message that is put to a queue with a consumer; no other has its ids. Raises ``ScenarioError``."""
    return DeadMessage(
        data=sent.body.encode(),
        format="MQSTR",
        msg_id=name,
        persistence=read_number(sent.persist, f"{where}.PERSIST", FAMILIES["PERSIST"]),
        priority=sent.priority,
    )


def read_number(value: int | str, where: str, families: tuple[str, ...]) -> int:
    """Read a number or the name of one. Raises ``ScenarioError`` for a name that no family has."""
    number = value if isinstance(value, int) else number_of(value, families)
    if number is None:
        problem = f"expected a number or a name that begins with {' or '.join(families)}, got {value!r}"
        raise ScenarioError(where, f"{problem}; {meant(str(value), families)}".rstrip("; "))
    return number


def read_result(value: int | str, where: str) -> int:
    """Read the reason code of a put: 0 for ``OK``. Raises ``ScenarioError``."""
    return 0 if value in OK_NAMES else read_number(value, where, ("MQRC_",))


def _data(spec: MessageSpec, numbers: Mapping[str, int], where: str) -> bytes:
    """Return the MQDLH and the body."""
    if spec.data_hex is not None:
        try:
            return bytes.fromhex(spec.data_hex)
        except ValueError:
            raise ScenarioError(f"{where}.data_hex", "expected pairs of hexadecimal digits") from None
    try:
        codec = codec_of(spec.coded_char_set_id)
    except UnknownCharacterSetError as error:
        raise ScenarioError(f"{where}.coded_char_set_id", str(error)) from None
    header = Mqdlh(
        reason=numbers["reason"],
        dest_q_name=spec.destq,
        dest_q_mgr_name=spec.destqm,
        encoding=spec.encoding,
        coded_char_set_id=spec.coded_char_set_id,
        format=spec.format,
    )
    try:
        written = write_mqdlh(header, encoding=spec.encoding, coded_char_set_id=spec.coded_char_set_id)
        return written + codec.encode(spec.body)[0]
    except MqdlhError as error:
        raise ScenarioError(where, str(error)) from None
    except UnicodeEncodeError:
        raise ScenarioError(f"{where}.body", f"expected text that CCSID {spec.coded_char_set_id} can hold") from None
