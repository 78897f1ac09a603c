-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same
-- deliveries and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a
-- bare claiming client is enough. The delivery count is written here, before anyone sees the message (I3).
-- Returns now, wait, then id, record, state, history for each message. wait: 0 claim again at once, -1 nothing
-- is known to come, else the milliseconds until something does.
local messages, states, ready, scheduled, expiring = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local leases, claims, history, dead, expired = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, wake, alarm, policy = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local patience, seed, default_policy, lapse_error = tonumber(ARGV[6]), ARGV[7], ARGV[8], ARGV[9]
local STEPS = 100 -- messages that a claim moves at most in each step of maintenance (I9)
-- @include lib/now
-- @include lib/id_of
-- @include lib/wake
-- @include lib/alarm
-- @include lib/take

local function maintain()
  -- @include lib/record
  -- @include lib/state
  -- @include lib/place
  -- @include lib/stand
  -- @include lib/fence
  -- @include lib/history
  -- @include lib/delay
  -- @include lib/judge
  -- @include lib/lapse
  -- @include lib/due
  -- @include lib/expiry
  sweep(STEPS)
  promote(STEPS + count)
  expire(STEPS)
end

-- What this token was given before and still holds.
local function given_before(list, reply)
  -- @include lib/fence
  for id in list:match('\n.*'):gmatch('[^\n]+') do
    local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
    if record and holds(token, text) then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
      reply[#reply + 1] = redis.call('HGET', history, id) or ''
    end
  end
  return #reply > 2
end

local reply = { now, -1 }
local list = redis.call('HGET', claims, token)
if list and given_before(list, reply) then
  return reply
end
if (next_event() or math.huge) <= now then
  maintain()
end
take(part == 'dead' and dead or part == 'expired' and expired or ready, count, reply)
if part == 'live' then
  local left = redis.call('ZCARD', ready) > 0
  if left then
    wake_one()
  else
    redis.call('DEL', wake)
  end
  if #reply == 2 then
    reply[2] = left and 0 or patience > 0 and take_alarm(patience) or -1
  end
end
return reply
