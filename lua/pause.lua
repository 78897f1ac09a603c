-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling go on. Returns 1 if
-- that changed anything, else 0.
-- drains
local paused, by, user = ARGV[1], ARGV[2], ARGV[3] -- paused: 1, or 0 to resume; by: who, as JSON; user: of Redis
-- needs: wake_one, note_audit; keys: settings
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
