"""The operators' verbs for chosen messages, at once or by a plan.

Each verb is one call per 20 messages, returns how many it changed and how many it left since they are being
processed (`Changed`), and can be repeated. Leased messages are counted, not changed: they are read before the
first change, by the same conditions, and the verb counts those that were claimed since, as it finds the token
in the state. A limit counts them last. A move to another queue is one call over the keys of both, so it is
atomic or refused (`CrossSlot`): queues that share a node begin with the same tag, `{shop}.orders`,
`{shop}.invoices`.

A question ("12 dead letters will be removed") and its answer lie seconds or minutes apart, in which messages
die, are repaired and come back. So an operator confirms a `Plan`, not a condition: `dry_run=True` of a verb
makes it, `plan.carry_out(by=…)` does what it says. The command line, the page and the assistant use the same
object. What each verb changes is fixed like this:

| verb | its messages |
|---|---|
| `purge` | a plan, of dead, expired and waiting ones |
| `redrive` of dead letters, as a job or at once | a plan; the job is begun with it |
| `edit` (a redrive that edits) | a plan, which has tried the edit; the page carries out that edit |
| `expire` | a plan |
| `dead-letter` | a plan |
| `move` | a plan |
| `copy` | a plan |
| `prioritize` | a plan, of those that have another priority |
| `deliver-now` | a plan |
| `mute` | a group, by its name, at that moment; no message is changed |
| `cancel` | one message, by its id: the command line asks nothing |
| `delete` | the whole queue, whatever is in it then: the question says so |

Without `dry_run` there was no question, so a verb takes those that are there when the call begins. Messages
that are named by their ids are not asked about either.

- *A plan has the messages that were there when it was made, and have stayed.* Of dead and expired ones those
  whose time is not after its own, of waiting ones those that were born up to the last birth of the queue.
  Birth and time of death alone do not tell: what was redriven, moved or copied since has an old birth, and
  its history says when it came; an undo or an import returns old times of death, and numbers them
  (`returned`). The client reads only such messages, and each call decides it again (`Choice.act`).
- *Conditions are judged at the time of the plan*: `older_than="30d"` means the same messages a minute later.
  Of a choice with a limit the ids are kept, so that one that is gone is not replaced by the next.
- *Never more than it said*: the verbs count what the plan has changed in its register. Within the millisecond
  of the plan, or if the clock steps back, messages that were shown cannot be told from others; then the
  number still holds.
- *It is good once.* The register is that of a sender, whose nonce is the mark of the plan
  (`core/steps/senders.py`), for an hour after the last call; an older plan is refused. The last call of a
  plan says that it is done, and how it differed. From then on each call gets that reply: of a double click,
  of a client that lost a reply, of another one that confirmed the same page. Two that carry it out at the
  same time share its count; both are told the sum. The register of a redrive has the id of its job. If a call
  was cut off by a crash, its messages are not in the count.
- *What differed is told*: "11 of 12 removed; 1 is not there any more; 6 more have died since, and stay"
  (`CarriedOut`).
- *A form of the page carries its plan*, signed with the key of the sessions: a form without one, or with
  another, does nothing. No state is kept for pages that are not confirmed.
"""
