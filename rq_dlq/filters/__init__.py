"""A small language to choose messages: "tenant = 'a' AND delivery_count > 2 AND age > '1h'".

The conditions of SQL-92, as users of JMS selectors know them:

    = <> < <= > >=  (also == and !=)     comparisons; text compares by code points
    AND OR NOT ( )                       three-valued: only what is TRUE is chosen
    x [NOT] IN ('a', 'b', 3)             x [NOT] BETWEEN 1 AND 5
    x [NOT] LIKE 'a_c%' [ESCAPE '!']     _ is one character, % any number of them
    x IS [NOT] NULL                      + - * /: 7 / 2 is 3.5, a division by zero is NULL
    'it''s'   12   1.5   2e3   TRUE      literals; keywords in any case, names in just theirs

A name is a field of the message, or else one of its headers; a header that is not there is NULL, and a
comparison with NULL is unknown. Names consist of letters, digits and _ . - $,
so put a space before a minus; one that is a keyword stands in double quotes.

    id priority size queue delivery_count charged nacked lapsed released redriven redelivered
    age (seconds since it was sent)      body, body.x.y (what a JSON body holds)
    reason error message fingerprint original_queue died (seconds since its death): NULL unless it is dead
    JMSMessageID AMQUserID (id), JMSPriority AMQPriority (priority), JMSXDeliveryCount (delivery_count),
    JMSRedelivered (redelivered), AMQSize (size)
    "x y"                                always the header of that name, even where a field is called so

Headers are text. Compared with a number, text that looks like one is one; compared with TRUE or FALSE, the
text true or false is; any other text is unknown then. Beside age and died, text is a duration: age > '1h30m'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rq_dlq.filters._facts import Facts

if TYPE_CHECKING:
    from rq_dlq.filters._logic import Evaluate
    from rq_dlq.message import Received

__all__ = ["Filter"]


@dataclass(frozen=True, slots=True, repr=False)
class Filter:
    """A condition on messages, read from text.

    Args:
        text: the condition; filters of the same text are equal.

    Raises:
        FilterError: it is not one; says where, and what was expected.
    """

    text: str
    _evaluate: Evaluate = field(init=False, compare=False)

    def __post_init__(self) -> None:
        from rq_dlq.filters._reading import read  # noqa: PLC0415 - brings lark, which few programs need

        object.__setattr__(self, "_evaluate", read(self.text))

    @classmethod
    def parse(cls, text: str) -> Filter:
        """Read a condition.

        Raises:
            FilterError: it is not one; says where, and what was expected.
        """
        return cls(text)

    def takes(self, message: Received[Any], now: int) -> bool:
        """Whether the condition is true of a message; whatever cannot be read of it is NULL.

        Args:
            now: the server's time in milliseconds, for age and died.
        """
        return self._evaluate(Facts(message, now)) is True

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __reduce__(self) -> tuple[type[Filter], tuple[str]]:
        return Filter, (self.text,)
