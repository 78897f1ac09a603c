"""The map of policies, and the part of it that applies to a queue.

There are three places, each with one truth. `rq:policies` holds the operators' part: an entry for each
pattern, with only the fields that it sets. `declared`, in a queue's settings, holds the declarations of its
program's code. The other fields of a queue's settings are the result, which the verbs read.

- *A client computes the result* (`PolicyMap.settings`), not Lua: on a cluster the map is on another node than
  most queues, so no call may read both; and merging at each judgement would cost each judgement. A client
  that changes the map or a declaration computes the result for the queues concerned and writes it with
  `configure`, which refuses a result that was computed from an older map or another declaration; the client
  then reads again.
- *Of two clients that race, at least one sees the other*, and the last to write has seen both. A client that
  opens a queue registers its name before it reads the map, and checks the map's version after it has written.
  A client that changes the map writes it before it reads the list of queues. Nothing is cached: a change is
  in force when `policies.set` returns.
- *An entry is changed field by field*: the verb writes the new entry only if the old one is still the one
  that was read (`set_policy`), otherwise the client begins again. So two operators who set different fields
  at the same time both count. A field that is set to None is off, and stored as such: if it were removed, the
  value of a wider pattern would apply. `put` and `--replace` do that.
- *Precedence*: pinned entries, then declarations, then other entries, then defaults. Among entries the more
  specific pattern wins, compared word by word from the left: literal, `*`, end, `#`. A field comes from the
  strongest source that sets it. Fields that are only valid together are set together.

A name that policies give to dead letters may belong to a queue: `core/queues` says how the two get along.
"""
