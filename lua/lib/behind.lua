-- Does the steps of maintenance that are due in a claim (I15). `behind`: whether more leases have lapsed than it swept. A
-- thorough claim then ends, and must be repeated. A value, not a function, since to define one costs Redis as much as a
-- command.
-- needs: now; keys: ready, scheduled, expiring, leases; args: part, count, thorough
-- gives: behind
local STEPS = 10 -- messages that a claim moves at most in each step of maintenance (I9)
local DUE = 128 -- due messages that it also makes ready, to take them: no more fit that are not fresh (lib/chosen)
local BEHIND = 15 -- messages that it also sweeps if it does nothing else
local there = redis.call('EXISTS', leases, scheduled, scheduled, expiring, expiring) -- a key counts each time it is named
local lapsed = there % 2 > 0 and redis.call('ZCOUNT', leases, '-inf', now) or 0
local fallen_due, outlived = 0, 0
if there > 1 then -- many queues have neither
  fallen_due = redis.call('ZCOUNT', scheduled, '-inf', now)
  outlived = redis.call('ZCOUNT', expiring, '-inf', now)
end
local behind = false -- with the sweep
if lapsed + fallen_due + outlived > 0 then
  -- needs: sweep, promote, expire
  sweep(STEPS)
  behind = redis.call('ZCOUNT', leases, '-inf', now) > 0
  if behind and thorough == '1' then
    -- needs: wake_one
    sweep(BEHIND)
    wake_one()
    return { now, 0 }
  end
  promote(STEPS + math.min(count, DUE))
  expire(STEPS)
  if part ~= 'live' and redis.call('ZCARD', ready) > 0 then
    -- needs: wake_one
    wake_one()
  end
end
