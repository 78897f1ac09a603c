-- Hands out nothing until it is resumed; sending, expiry and settling go on. Returns whether that changed anything.
local settings, wake = KEYS[1], KEYS[2]
local paused = ARGV[1] -- 1, or 0 to resume
-- One token, never more: it wakes one waiting client, whose claim passes it on where work is left. So no one
-- polls, and a message wakes one client of a thousand.
local function wake_one()
  if redis.call('LLEN', wake) == 0 then
    redis.call('LPUSH', wake, 1)
    redis.call('PEXPIRE', wake, 5000) -- who comes later looks before it waits; so none is left behind (I13)
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
