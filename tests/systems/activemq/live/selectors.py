"""Selectors of which it is not plain what a broker makes of them, for a message with ``PROPERTIES``.

What the real broker answered is in ``recorded_selectors.json``.
"""

from __future__ import annotations

from typing import Any

PROPERTIES: dict[str, Any] = {"s": "abc", "n": 3, "d": 1.5, "on": True, "num": "3", "percent": "a_c%"}
SELECTORS = (
    # how tightly words bind
    *("NOT n = 4", "NOT (n = 4)", "NOT on", "NOT on = FALSE", "NOT n", "NOT s", "NOT missing", "NOT (missing = 1)"),
    *(
        "n = 3 OR n = 4 AND on = FALSE",
        "n = 3 = TRUE",
        "n < 4 < 5",
        "(n < 4) = on",
        "n = 3 AND on",
        "n",
        "on",
        "s",
        "3",
    ),
    *("TRUE", "NULL", "(on)", "n AND on", "'x'", "n + 1", "-n", "on OR missing = 1", "on AND missing = 1"),
    # values of two types
    *("s = 3", "s <> 3", "n = '3'", "n <> '3'", "num = n", "num <> n", "on = 1", "on <> 1", "on = 'true'", "d = n"),
    *("n = 3.0", "d > 1", "s > 'a'", "s > n", "s < num", "'a' < 'b'", "n > on", "TRUE > FALSE", "n > TRUE", "n >= s"),
    *("TRUE = 1", "1 = TRUE", "TRUE = FALSE", "'a' = 'a'", "3 = 3", "3 = 4"),
    # what is missing
    *(
        "missing = missing",
        "missing <> missing",
        "missing <> 3",
        "3 <> missing",
        "n <> missing",
        "n = NULL",
        "NULL = n",
    ),
    *("missing IS NULL", "missing IS NOT NULL", "n IS NOT NULL", "NULL IS NULL", "(n = 3) IS NULL", "n IS 3"),
    *("missing BETWEEN 1 AND 2", "missing NOT BETWEEN 1 AND 2", "n BETWEEN 5 AND missing", "n NOT BETWEEN 1 AND 2"),
    *(
        "n BETWEEN 'a' AND 5",
        "s BETWEEN 'a' AND 'c'",
        "n BETWEEN s AND 5",
        "n NOT BETWEEN s AND 5",
        "n BETWEEN 1 AND on",
    ),
    # lists and patterns
    *(
        "s IN ('abc')",
        "s NOT IN ('abc')",
        "n IN ('3')",
        "n NOT IN ('3')",
        "missing NOT IN ('a')",
        "n IN (3)",
        "s IN ()",
    ),
    *("'abc' IN ('abc')", "(s) IN ('abc')", "-s IN ('abc')", "s IN ('a',)", "s IN (s)"),
    *("s LIKE 'a%'", "s LIKE '_b_'", "s LIKE 'ABC'", "n LIKE '3'", "n NOT LIKE '3'", "missing NOT LIKE 'a'"),
    *("percent LIKE 'a!_c!%' ESCAPE '!'", "percent LIKE 'a!_!c!%' ESCAPE '!'", "percent LIKE 'a_c!%' ESCAPE '%'"),
    *("s LIKE 'a.c'", "s LIKE s", "s LIKE 'abc' ESCAPE ''", "s LIKE 'abc' ESCAPE '!!'", "s LIKE 'ab!' ESCAPE '!'"),
    *("'abc' LIKE 'a%'", "s LIKE ''", "(n = 3) LIKE 'true'"),
    # sums
    *("n + 1 = 4", "n - - 1 = 4", "n * 2 / 4 = 1.5", "n % 2 = 1", "n / 0 > 5", "0 / 0 = 0 / 0", "n % 0 > 5", "+n = 3"),
    *("-s = 3", "-s IS NULL", "+s = 'abc'", "s + 'd' = 'abcd'", "s + n = 'abc3'", "s + on = 'abctrue'", "n + s = 'x'"),
    *("s - 1 = 2", "on + 1 = 2", "n + missing IS NULL", "n - 1 = 2 OR s - 1 = 2", "s - 1 = 2 OR n = 3"),
    # how things are written
    *("n = 03", "n = 010", "n = 08", "n = 0x3", "n = 3L", "n = 3l", "d = 1.5D", "d = 1.5f", "n = 3.", "d = 15e-1"),
    *(
        "n=3and on",
        "n=3and(on)",
        "N = 3",
        "n != 4",
        "n == 3",
        "n = 3;",
        "n = 3 n",
        "n = 3)",
        "(n = 3",
        "n = 3 AND",
        "AND",
    ),
    *(
        "a.b = 1",
        "a$b IS NULL",
        "_x IS NULL",
        "\"s\" = 'abc'",
        "s = 'it''s'",
        "s = 'abc",
        "n = 3 -- three",
        "n = 3 -- x\n",
    ),
    *("n = /* three */ 3", "n /* = 4", "n\t=\n3", "\u00e9 = 1", "s = '\u00e9'", "n = 9223372036854775807"),
    *("n < 9223372036854775808", "n > -9223372036854775808", "nOt n iS nUlL", "tRuE", "n \u2264 3"),
    # headers
    *("JMSPriority = 4", "JMSDeliveryMode = 'PERSISTENT'", "JMSDeliveryMode = 2", "JMSMessageID LIKE 'ID:%'"),
    *("JMSDestination = 'queue://Q'", "JMSRedelivered", "JMSRedelivered = FALSE", "JMSXDeliveryCount = 1"),
    *("JMSType IS NULL", "JMSXGroupSeq = 0", "JMSXGroupID IS NULL", "JMSCorrelationID IS NULL", "jmspriority IS NULL"),
    # XML in the body, of which this message has none
    *("XPATH '/a'", "XPATH", "XPATH a", "XPATH 3", "xpath '/a' OR n = 3", "XQUERY '/a'", "XQUERY a", "XPATH = 1"),
    *("NOT XPATH '/a'", "XPATH '('", "XPATH '/a' = TRUE", "(XPATH '/a')", "XPATH '/a' 'b'", "a.XPATH = 1"),
)
