-- Removes a queue: all its keys except the audit, which is kept for another month. Refused while the queue is not empty,
-- unless `force` is 1. A list that a job has committed refuses even that, since it may be for several queues: its messages
-- must be moved first. Returns how many messages were removed; or, if refused, how many are ready, scheduled, leased, dead
-- and expired, and how many lists are committed.
-- drains
-- luacheck: ignore 211 (it needs the keys that it does not name, too)
local number, force = ARGV[1], ARGV[2] -- force: 1, or 0: only an empty queue
local messages, states, history, ready, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local dead, expired, expiring, leases, claims = KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local counters, settings, wake, alarm, committed = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local outcomes, acked_ids, schedules, ticks, groups = KEYS[16], KEYS[17], KEYS[18], KEYS[19], KEYS[20]
local cleared, grouped, reindexed, redrives, redriving = KEYS[21], KEYS[22], KEYS[23], KEYS[24], KEYS[25]
local audit, seats, tended, gates, lanes = KEYS[26], KEYS[27], KEYS[28], KEYS[29], KEYS[30]
local strikes, muted, results, result_times, slots = KEYS[31], KEYS[32], KEYS[33], KEYS[34], KEYS[35]
local runs, failures, sender = KEYS[36], KEYS[37], KEYS[38]
-- Whether this call was done before (I12): then the count that was recorded with it, otherwise false. The register of a
-- sender holds the number of its last call that was done here. A sender makes one call at a time, so a number that is not
-- higher is the same call again, or an older one that arrives late. A value, not a function, since to define one costs
-- Redis as much as a command.
local register = redis.call('GET', sender)
local done = register and tonumber(number) <= tonumber(register:match('^%d+') or 0) and tonumber(register:match('%d*$'))
if done then
  return done
end
-- Records that the call is done (lib/noted), and how many messages it changed. Returns that count. `more`: the rest of the
-- call's reply.
local function note_done(count, more)
  local note = (more or '') .. count
  -- Records in the register of its sender (lib/done) that the call is done: `note` is the count, after the rest of the call's
  -- reply. The last write of a script: if it is cut off before, a repetition does the rest. The note stays for an hour, far
  -- longer than any call is repeated. Statements, as in lib/chosen.
  local noted = number .. ' ' .. note
  redis.call('PSETEX', sender, '3600000', noted)
  return noted and count
end
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
