"""Jobs of many tasks that write to a queue: all of their messages, or none.

A job stages rows in its own lists, one per attempt of a task, which expire on their own. One call commits: it
checks that all lists are present and complete, adds them to `committed`, remembers the job, and removes the
lists' time to live. From then on the messages count as committed, but they are not visible yet. The
committer, or maintenance after ten seconds, moves them into the queue, which is bounded work. With several
queues the first one decides: a note that is committed with it says what the others have to commit.

A list holds messages of one delay and time to live, which its name says. 100,000 rows with as many delays
made 100,000 lists, and their commit kept Redis busy for 0.5 s. So Spark's sink refuses more than 20,000,
unless each task has but one.
"""
