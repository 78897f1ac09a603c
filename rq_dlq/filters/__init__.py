"""A small language to select messages: "tenant = 'a' AND delivery_count > 2 AND age > '1h'".

The conditions of SQL-92, as in JMS selectors:

    = <> < <= > >=  (also == and !=)     comparisons; text compares by code points
    AND OR NOT ( )                       three-valued: a message is selected only if the result is TRUE
    x [NOT] IN ('a', 'b', 3)             x [NOT] BETWEEN 1 AND 5
    x [NOT] LIKE 'a_c%' [ESCAPE '!']     _ is one character, % any number of them
    x IS [NOT] NULL                      + - * /: 7 / 2 is 3.5, a division by zero is NULL
    'it''s'   12   1.5   2e3   TRUE      literals; keywords ignore case, names do not

A name is a field of the message, or otherwise one of its headers. A missing header is NULL, and a comparison
with NULL is unknown. Names consist of letters, digits and _ . - $, so put a space before a minus. Put a name
that is a keyword in double quotes. Other names that begin with JMS are refused.

    id priority size queue attempt delivery_count untried charged nacked lapsed released redriven redelivered
    age (seconds since it was sent)      body, body.x.y (a JSON body and its parts)      key dependency
    reason error message fingerprint original_queue died (seconds since its death): NULL unless it is dead
    JMSMessageID AMQUserID (id), JMSPriority AMQPriority (priority), JMSXDeliveryCount (attempt),
    JMSRedelivered (redelivered), AMQSize (size),
    JMSXGroupID AMQGroupID (key)
    JMSTimestamp AMQTimestamp, JMSExpiration AMQExpiration: in milliseconds; 0: it never expires
    "x y"                                always the header of that name, even if a field has the same name

Headers are text. Compared with a number, text that looks like a number counts as one. Compared with TRUE or
FALSE, the text true or false counts as that value. With any other text these comparisons are unknown.
Compared with age and died, text is a duration: age > '1h30m'.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rq_dlq.filters._facts import MessageFacts

if TYPE_CHECKING:
    from rq_dlq.filters._logic import Evaluate
    from rq_dlq.values.masks import Masks
    from rq_dlq.values.message import Received
    from rq_dlq.values.wanted import Wanted

__all__ = ["Filter"]


@dataclass(frozen=True, slots=True, repr=False)
class Filter:
    """A condition on messages, read from text.

    Args:
        text: the condition; filters with the same text are equal.

    Attributes:
        needs: the parts of a message that the condition reads.

    Raises:
        FilterError: the text is not a condition; the error shows the position, and what was expected.
    """

    text: str
    needs: Wanted = field(init=False, compare=False)
    _evaluate: Evaluate = field(init=False, compare=False)

    def __post_init__(self) -> None:
        from rq_dlq.filters._reading import read  # noqa: PLC0415 - imports lark, which few programs need

        evaluate, needs = read(self.text)
        object.__setattr__(self, "_evaluate", evaluate)
        object.__setattr__(self, "needs", needs)

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The same as `Filter(text)`."""
        return cls(text)

    def takes(self, message: Received[Any], now: int, masks: Masks | None = None) -> bool:
        """Whether the condition is true for a message. Unreadable parts are NULL.

        Args:
            message: the message.
            now: the server's time in milliseconds, for age and died.
            masks: the condition sees the text that these leave visible, so that it cannot find out the rest;
                None: all of it.
        """
        return self._evaluate(MessageFacts(message, now, masks)) is True

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __reduce__(self) -> tuple[type[Filter], tuple[str]]:
        return Filter, (self.text,)
