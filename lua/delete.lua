-- Removes a queue: all its keys except the audit, which is kept for another month. Refused while the queue is not empty,
-- unless `force` is 1. A list that a job has committed refuses even that, since it may be for several queues: its messages
-- must be moved first. Returns how many messages were removed; or, if refused, how many are ready, scheduled, leased, dead
-- and expired, and how many lists are committed.
-- drains
-- luacheck: ignore 211 (it needs the keys that it does not name, too)
local number, force = ARGV[1], ARGV[2] -- force: 1, or 0: only an empty queue
-- needs: done; keys: all
if done then
  return done
end
-- needs: note_done
local present, lists = redis.call('HLEN', messages), redis.call('ZCARD', committed)
if lists > 0 or (present > 0 and force ~= '1') then
  local left, leased = {}, present
  for n, index in ipairs({ ready, scheduled, dead, expired }) do
    left[n] = redis.call('ZCARD', index)
    leased = leased - left[n]
  end
  return { left[1], left[2], math.max(0, leased), left[3], left[4], lists }
end
local AUDITED = 2592000000 -- milliseconds: 30 days
redis.call('PEXPIRE', audit, AUDITED)
local keys = {}
for _, key in ipairs(KEYS) do
  keys[#keys + 1] = key ~= audit and key or nil
end
-- One command, so that it takes effect at one moment. Redis frees the memory in another thread, whatever its size.
redis.call('UNLINK', messages, unpack(keys))
return note_done(present)
