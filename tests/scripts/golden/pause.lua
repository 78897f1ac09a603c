-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling continue. Returns 1 if that
-- changed anything, otherwise 0; -2 if the end of the pause has passed: then nothing is done.
-- drains
local paused, ends, after = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- paused: 1, or 0 to resume
local by, user = ARGV[4], ARGV[5] -- ends, after: as in pause_lane; by: the operator, as JSON; user: the Redis user
local settings, wake, audit = KEYS[1], KEYS[2], KEYS[3]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on if messages are left. So no
-- client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client claims before it waits, so the token may expire; none is left behind (I13)
  end
end
-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
local known = redis.call('HMGET', settings, 'paused', 'paused_until')
ends = after and string.format('%.0f', now + after) or ends
if paused == '1' and ends ~= '' and tonumber(ends) <= now then
  return -2
elseif (known[1] == '1') == (paused == '1') and (known[2] or '') == ends then
  return 0
elseif paused == '1' and ends ~= '' then
  redis.call('HSET', settings, 'paused_until', ends, 'paused', 1)
elseif paused == '1' then
  redis.call('HSET', settings, 'paused', 1)
  redis.call('HDEL', settings, 'paused_until')
else
  redis.call('HDEL', settings, 'paused', 'paused_until')
end
if paused ~= '1' or ends ~= '' then
  wake_one() -- a waiting client claims, or sets the alarm again
end
note_audit(paused == '1' and 'paused' or 'resumed', by, user)
return 1
