-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same
-- deliveries and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a
-- bare claiming client is enough. The delivery count is written here, before anyone sees the message (I3).
-- Returns now, wait, then id, record, state, history for each message, or only how many. wait: 0 claim again at once,
-- -1 nothing is known to come, else the milliseconds until something does.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, alarm, settings, outcomes = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local patience, alarmed = tonumber(ARGV[6]), ARGV[7] -- alarmed: 1 where the client holds the alarm
local attributed, answer = ARGV[8], ARGV[9] -- 1 where the client says what it begins; rows or count
local seed, default_policy, lapse_error = ARGV[10], ARGV[11], ARGV[12]
local STEPS = 15 -- messages that a claim moves at most in each step of maintenance (I9)
-- @include lib/now
local reply = { now, -1 }
local given = redis.call('HGET', claims, token)
if given then
  -- @include lib/given_before
end
local lapsed = redis.call('ZCOUNT', leases, '-inf', now)
local fallen_due = redis.call('ZCOUNT', scheduled, '-inf', now)
local outlived = redis.call('ZCOUNT', expiring, '-inf', now)
if lapsed + fallen_due + outlived > 0 then
  -- @include lib/record
  -- @include lib/state
  -- @include lib/place
  -- @include lib/stand
  -- @include lib/bury
  -- @include lib/history
  -- @include lib/delay
  -- @include lib/judge
  -- @include lib/lapse
  -- @include lib/due
  -- @include lib/expiry
  sweep(STEPS)
  promote(STEPS + count)
  expire(STEPS)
  if part ~= 'live' and redis.call('ZCARD', ready) > 0 then
    -- @include lib/wake
    wake_one()
  end
end

local source = part == 'dead' and dead or part == 'expired' and expired or ready
local room = count
if part == 'live' then
  -- @include lib/room
end
if room > 0 then
  -- @include lib/take
end
if part == 'live' then
  local left = redis.call('ZCARD', ready) > 0
  if left and room > 0 then
    -- @include lib/wake
    wake_one()
    reply[2] = 0
  else
    redis.call('DEL', wake)
    if #reply == 2 and patience > 0 then
      -- @include lib/alarm
    end
  end
  if alarmed == '1' and (#reply > 2 or patience == 0) then -- another has to watch the time
    -- @include lib/wake
    redis.call('DEL', alarm)
    wake_one()
  end
end
return reply
