"""Schedules: recurring sends.

A schedule is a line of JSON in its queue's hash `schedules`, and an entry in the sorted set `ticks`, by its
next tick. `look` reads the head of `ticks` as it does those of other indexes; so a queue without schedules
costs one ZRANGE per look, and no call. A process that finds one due works out which tick to send and which is
next, and calls the verb `schedule`.

- *One call fires.* `schedule` writes the record only if it is still the one that was read, and sends the
  message with it. So of any number of processes one sends each tick, also after a repetition, and after the
  message was acked: an id made of name and tick alone would not stop a second send then. The same call adds,
  changes, pauses and removes.
- *The client works out ticks*, as it does settings (`configure`): Lua has neither time zones nor cron. It
  cannot be early, since the verb compares the tick with the server's clock, with which `due` replies. So
  neither the process nor its clock matters.
- *No message is sent ahead.* The next tick's message could wait in `scheduled`, as in BullMQ. But then a
  purge would end the schedule, each look at a queue would show a message before its send, and a change of the
  rule would have to replace it.
- *Only maintenance fires*, not claims: a claim is one call, and would have to ask the client for the next
  tick. I15 does not cover schedules; workers and `maintain()` do it.
- *`missed="last"` by default*: a late nightly report is worth more than none, and a hundred copies of a
  missed minute are worth nothing.
- *A declared schedule is not removed automatically.* During an upgrade two versions of a program run at once,
  and neither must remove a schedule of the other.
- *A record that cannot be read*, damaged or of a later version, or with a time zone that this machine does
  not have, is put off by a minute, with a warning, and left as it is. Fields of later versions are kept.
- *A clock that stepped back* cannot be told from a rule with few ticks without reading each record at each
  look. So the next tick is only worked out anew when the schedule is written or resumed, and then by the
  clock. A step of up to a minute repeats no tick.
- *Interrupted calls*: the message is added before the record is written, which ends the tick. In between, a
  repetition sends the same id, which adds nothing while the message is there. The firing process corrects an
  entry of `ticks` that the record contradicts, and drops one without a record.
"""
