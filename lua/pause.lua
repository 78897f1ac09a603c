-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling go on. Returns 1 if
-- that changed anything, else 0.
-- drains
local paused = ARGV[1] -- 1, or 0 to resume
-- needs: wake_one; keys: settings
if (redis.call('HGET', settings, 'paused') == '1') == (paused == '1') then
  return 0
elseif paused == '1' then
  redis.call('HSET', settings, 'paused', 1)
else
  redis.call('HDEL', settings, 'paused')
  wake_one()
end
return 1
