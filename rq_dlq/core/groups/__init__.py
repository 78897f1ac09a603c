"""Groups of dead letters by their cause, as the index has them.

A group is the dead letters of one fingerprint (`values/fingerprint.py`; lua/groups.lua has the index). With a
million letters of 5 kB `groups()` takes 2.8 ms of Redis, a page of 20 of one group 1.2 ms (`python -m
tests.benchmarks.groups`).

- *New, growing, regressed.* Growing compares the deaths of the last hour with the mean of the hours before,
  at most 23. For the other two the queue remembers, for a thousand groups and 30 days, when a letter was last
  taken out by an operator or by its age (`cleared`): one write per call and group. A group that begins after
  that time was empty, so it regressed; one that nothing was ever taken from, and that began within a day, is
  new. Acks of claimed dead letters are not noted.
- *A calm group has no trend.* The words are about the present, so a group has none five minutes after its
  last death, by the server's clock. If they lasted for the last hour or the first day, a repaired group would
  look like an untouched one. The fields `new`, `regressed` and `last_hour` still have the past.
- *Muting* records its time and its end, in a hash of the queue. A mute until the next death is not a state
  that a death would have to end: a group is muted as long as its last death is older than the mute. So a
  death costs nothing more.
- *By version and consumer* only the newest ten letters of each group are counted. Exact counts would be
  counters, or an index more per question; the newest ten show whether today's release still fails.
"""
