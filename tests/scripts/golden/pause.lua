-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling go on. Returns 1 if
-- that changed anything, else 0.
-- drains
local paused = ARGV[1] -- 1, or 0 to resume
local settings, wake = KEYS[1], KEYS[2]
-- Puts one token on the list, never more. It wakes one waiting client, whose claim passes it on where work is left.
-- So no client polls, and a message wakes one of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- a client looks before it waits, so the token may go; none is left behind (I13)
  end
end
if (redis.call('HGET', settings, 'paused') == '1') == (paused == '1') then
  return 0
elseif paused == '1' then
  redis.call('HSET', settings, 'paused', 1)
else
  redis.call('HDEL', settings, 'paused')
  wake_one()
end
return 1
