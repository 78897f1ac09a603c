-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling go on. Returns 1 if
-- that changed anything, else 0.
-- drains
local paused, by, user = ARGV[1], ARGV[2], ARGV[3] -- paused: 1, or 0 to resume; by: who, as JSON; user: of Redis
local settings, wake, audit = KEYS[1], KEYS[2], KEYS[3]
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on where work is left.
-- So no client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client looks before it waits, so the token may go; none is left behind (I13)
  end
end
-- Notes what an operator did, or had done; the newest thousand notes of a queue stay.
--   did: what was done, in a word; by: who, as JSON; user: of Redis; then more, names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and be there again
end
if (redis.call('HGET', settings, 'paused') == '1') == (paused == '1') then
  return 0
elseif paused == '1' then
  redis.call('HSET', settings, 'paused', 1)
else
  redis.call('HDEL', settings, 'paused')
  wake_one()
end
note_audit(paused == '1' and 'paused' or 'resumed', by, user)
return 1
