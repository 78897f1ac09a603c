-- Hands out nothing until it is resumed; sending, expiry and settling go on. Returns whether that changed anything.
local settings, wake = KEYS[1], KEYS[2]
local paused = ARGV[1] -- 1, or 0 to resume
-- @include lib/wake
if (redis.call('HGET', settings, 'paused') == '1') == (paused == '1') then
  return 0
elseif paused == '1' then
  redis.call('HSET', settings, 'paused', 1)
else
  redis.call('HDEL', settings, 'paused')
  wake_one()
end
return 1
