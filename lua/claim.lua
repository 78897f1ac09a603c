-- Hands out up to `count` messages under one lease, whose id is the token: the same token again gives the same deliveries
-- and claims nothing new (I12). First it does the steps of maintenance that are due (I15), so a claiming client is enough.
-- The delivery count is written here, before a consumer sees the message (I3). Returns now, wait, then id, record, state
-- and history of each message, or only their number and their bytes. wait: 0 to claim again immediately; -1 if no event is
-- expected; -2 if only suspects are ready and it must not take them; -3 if the queue was deleted since the client opened
-- it; otherwise the milliseconds until the next event. A claim that takes nothing replies 0 unless nothing was ready.
-- drains
local token, count, lease, part, consumer = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local patience, alarmed = tonumber(ARGV[6]), ARGV[7] -- alarmed: 1 if the client holds the alarm
local suspects, answer = ARGV[8], ARGV[9] -- suspects: all; of a worker: alone or none (lib/rows); answer: rows or count
local thorough = ARGV[10] -- 1: until all lapsed leases are swept, it hands out nothing and replies 0
local opening = ARGV[11] -- see lib/is_open
local seed, default_policy, lapse_error = ARGV[12], ARGV[13], ARGV[14]
-- needs: reply; keys: ready, claims, wake, alarm
local given = redis.call('HGET', claims, token)
if given then
  -- needs: given_before
  if given_before(given, reply) then
    return reply
  end
end
-- needs: behind, capacity, by_rate, rows, more, marked, only_suspects, seated, passed, chosen, taken, let_in_since, unwatched
if by_rate and #chosen > 0 then
  -- needs: spend
  spend(by_rate, #chosen)
end
if part == 'live' then
  if more or let_in_since or (marked or not seated or not passed or #taken < #rows) and redis.call('ZCARD', ready) > 0 then
    -- needs: wake_one
    wake_one()
    reply[2] = only_suspects and -2 or 0
  else
    redis.call('DEL', wake)
    if #chosen == 0 and patience > 0 then
      -- needs: set_alarm
      reply[2] = set_alarm()
    end
  end
  if unwatched or alarmed == '1' and (#chosen > 0 or patience == 0 or only_suspects) then -- another client must set its alarm
    -- needs: wake_one
    redis.call('DEL', alarm)
    wake_one()
  end
end
if #chosen == 0 and capacity > 0 and (behind or #rows > 0 and part ~= 'live' and thorough == '1') then
  reply[2] = 0
end
return reply
