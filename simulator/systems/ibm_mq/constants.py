"""The names that a rules table may use for numbers: MQMT_*, MQPER_*, MQAT_*, MQFB_* and MQRC_*.

A number can have several names: 2 is ``MQAT_MVS``, ``MQAT_OS390`` and ``MQAT_ZOS``. The
values are those of Linux, where ``MQAT_DEFAULT`` is ``MQAT_UNIX``. Names for -1 are left
out: a rules table holds no negative number.

Source: IBM MQ's documentation of the MQI's constants.
"""

from __future__ import annotations

from collections.abc import Mapping

from simulator.systems.ibm_mq.reason_codes import REASON_CODES

_MESSAGE_TYPES = {
    "MQMT_SYSTEM_FIRST": 1,
    "MQMT_REQUEST": 1,
    "MQMT_REPLY": 2,
    "MQMT_REPORT": 4,
    "MQMT_DATAGRAM": 8,
    "MQMT_MQE_FIELDS_FROM_MQE": 112,
    "MQMT_MQE_FIELDS": 113,
    "MQMT_SYSTEM_LAST": 65_535,
    "MQMT_APPL_FIRST": 65_536,
    "MQMT_APPL_LAST": 999_999_999,
}

_PERSISTENCES = {
    "MQPER_NOT_PERSISTENT": 0,
    "MQPER_PERSISTENT": 1,
    "MQPER_PERSISTENCE_AS_Q_DEF": 2,
    "MQPER_PERSISTENCE_AS_TOPIC_DEF": 2,
}

_APPLICATION_TYPES = {
    "MQAT_NO_CONTEXT": 0,
    "MQAT_CICS": 1,
    "MQAT_MVS": 2,
    "MQAT_OS390": 2,
    "MQAT_ZOS": 2,
    "MQAT_IMS": 3,
    "MQAT_OS2": 4,
    "MQAT_DOS": 5,
    "MQAT_AIX": 6,
    "MQAT_UNIX": 6,
    "MQAT_DEFAULT": 6,
    "MQAT_QMGR": 7,
    "MQAT_OS400": 8,
    "MQAT_WINDOWS": 9,
    "MQAT_CICS_VSE": 10,
    "MQAT_WINDOWS_NT": 11,
    "MQAT_VMS": 12,
    "MQAT_GUARDIAN": 13,
    "MQAT_NSK": 13,
    "MQAT_VOS": 14,
    "MQAT_OPEN_TP1": 15,
    "MQAT_VM": 18,
    "MQAT_IMS_BRIDGE": 19,
    "MQAT_XCF": 20,
    "MQAT_CICS_BRIDGE": 21,
    "MQAT_NOTES_AGENT": 22,
    "MQAT_TPF": 23,
    "MQAT_USER": 25,
    "MQAT_BROKER": 26,
    "MQAT_QMGR_PUBLISH": 26,
    "MQAT_JAVA": 28,
    "MQAT_DQM": 29,
    "MQAT_CHANNEL_INITIATOR": 30,
    "MQAT_WLM": 31,
    "MQAT_BATCH": 32,
    "MQAT_RRS_BATCH": 33,
    "MQAT_SIB": 34,
    "MQAT_SYSTEM_EXTENSION": 35,
    "MQAT_MCAST_PUBLISH": 36,
    "MQAT_AMQP": 37,
    "MQAT_USER_FIRST": 65_536,
    "MQAT_USER_LAST": 999_999_999,
}

_FEEDBACK_CODES = {
    "MQFB_NONE": 0,
    "MQFB_SYSTEM_FIRST": 1,
    "MQFB_QUIT": 256,
    "MQFB_EXPIRATION": 258,
    "MQFB_COA": 259,
    "MQFB_COD": 260,
    "MQFB_CHANNEL_COMPLETED": 262,
    "MQFB_CHANNEL_FAIL_RETRY": 263,
    "MQFB_CHANNEL_FAIL": 264,
    "MQFB_APPL_CANNOT_BE_STARTED": 265,
    "MQFB_TM_ERROR": 266,
    "MQFB_APPL_TYPE_ERROR": 267,
    "MQFB_STOPPED_BY_MSG_EXIT": 268,
    "MQFB_ACTIVITY": 269,
    "MQFB_XMIT_Q_MSG_ERROR": 271,
    "MQFB_PAN": 275,
    "MQFB_NAN": 276,
    "MQFB_STOPPED_BY_CHAD_EXIT": 277,
    "MQFB_STOPPED_BY_PUBSUB_EXIT": 279,
    "MQFB_NOT_A_REPOSITORY_MSG": 280,
    "MQFB_BIND_OPEN_CLUSRCVR_DEL": 281,
    "MQFB_MAX_ACTIVITIES": 282,
    "MQFB_NOT_FORWARDED": 283,
    "MQFB_NOT_DELIVERED": 284,
    "MQFB_UNSUPPORTED_FORWARDING": 285,
    "MQFB_UNSUPPORTED_DELIVERY": 286,
    "MQFB_DATA_LENGTH_ZERO": 291,
    "MQFB_DATA_LENGTH_NEGATIVE": 292,
    "MQFB_DATA_LENGTH_TOO_BIG": 293,
    "MQFB_BUFFER_OVERFLOW": 294,
    "MQFB_LENGTH_OFF_BY_ONE": 295,
    "MQFB_IIH_ERROR": 296,
    "MQFB_NOT_AUTHORIZED_FOR_IMS": 298,
    "MQFB_DATA_LENGTH_TOO_SHORT": 299,
    "MQFB_IMS_ERROR": 300,
    "MQFB_IMS_FIRST": 301,
    "MQFB_IMS_LAST": 399,
    "MQFB_CICS_INTERNAL_ERROR": 401,
    "MQFB_CICS_NOT_AUTHORIZED": 402,
    "MQFB_CICS_BRIDGE_FAILURE": 403,
    "MQFB_CICS_CORREL_ID_ERROR": 404,
    "MQFB_CICS_CCSID_ERROR": 405,
    "MQFB_CICS_ENCODING_ERROR": 406,
    "MQFB_CICS_CIH_ERROR": 407,
    "MQFB_CICS_UOW_ERROR": 408,
    "MQFB_CICS_COMMAREA_ERROR": 409,
    "MQFB_CICS_APPL_NOT_STARTED": 410,
    "MQFB_CICS_APPL_ABENDED": 411,
    "MQFB_CICS_DLQ_ERROR": 412,
    "MQFB_CICS_UOW_BACKED_OUT": 413,
    "MQFB_PUBLICATIONS_ON_REQUEST": 501,
    "MQFB_SUBSCRIBER_IS_PUBLISHER": 502,
    "MQFB_MSG_SCOPE_MISMATCH": 503,
    "MQFB_SELECTOR_MISMATCH": 504,
    "MQFB_NOT_A_GROUPUR_MSG": 505,
    "MQFB_IMS_NACK_1A_REASON_FIRST": 600,
    "MQFB_IMS_NACK_1A_REASON_LAST": 855,
    "MQFB_SYSTEM_LAST": 65_535,
    "MQFB_APPL_FIRST": 65_536,
    "MQFB_APPL_LAST": 999_999_999,
}
FAMILIES: Mapping[str, Mapping[str, int]] = {
    "MQMT_": _MESSAGE_TYPES,
    "MQPER_": _PERSISTENCES,
    "MQAT_": _APPLICATION_TYPES,
    "MQFB_": _FEEDBACK_CODES,
    "MQRC_": REASON_CODES,
}
# Among several names of one number these are printed; of others, the first in the tables above.
_PREFERRED = ("MQMT_REQUEST", "MQAT_ZOS", "MQAT_UNIX", "MQPER_PERSISTENCE_AS_Q_DEF")


def number_of(name: str, families: tuple[str, ...]) -> int | None:
    """Return the number with that name in one of the families (``MQRC_``); ``None`` if no family has the name."""
    return next((FAMILIES[family][name] for family in families if name in FAMILIES[family]), None)


def name_of(number: int, families: tuple[str, ...]) -> str | None:
    """Return the name of a number in the first family that has one; ``None`` if no family has one."""
    return next((_NAMES[family][number] for family in families if number in _NAMES[family]), None)


def _names(numbers: Mapping[str, int]) -> dict[int, str]:
    first = {number: name for name, number in reversed(list(numbers.items()))}
    return first | {numbers[name]: name for name in _PREFERRED if name in numbers}


_NAMES = {family: _names(numbers) for family, numbers in FAMILIES.items()}
