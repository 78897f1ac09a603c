-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling continue. Returns 1 if that
-- changed anything, otherwise 0; -2 if the end of the pause has passed: then nothing is done.
-- drains
local paused, ends, after = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- paused: 1, or 0 to resume
local by, user = ARGV[4], ARGV[5] -- ends, after: as in pause_lane; by: the operator, as JSON; user: the Redis user
-- needs: now, wake_one, note_audit; keys: settings
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
