"""Policies are values: see the waits before they happen."""

from tenacity import stop_after_attempt, wait_exponential

from rq_dlq import RedeliveryPolicy

policy = RedeliveryPolicy(initial_delay="1s", multiplier=2, max_delay="1m", max_redeliveries=8)
print(policy.preview())

print([policy.delay(n, r=0) for n in range(1, 9)])  # r: the random draw for the spread, -1 to 1
print(RedeliveryPolicy(delays=["1s", "1m", "1h"]).delay(7))  # a list: the last one repeats

# The settings of other systems, with their arithmetic
artemis = RedeliveryPolicy.artemis(**{"redelivery-delay": 5000, "redelivery-delay-multiplier": 2})
classic = RedeliveryPolicy.activemq(useExponentialBackOff=True, maximumRedeliveries=6)
ours = RedeliveryPolicy.from_tenacity(wait=wait_exponential(max=60), stop=stop_after_attempt(5))
for each in (artemis, classic, ours):
    print([each.delay(n, r=0, previous=None) for n in range(1, 5)])
