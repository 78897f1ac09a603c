-- Removes the record of a redrive. The list of its ids expires.
-- needs: OF_REDRIVE; keys: redrives, redriving
-- gives: forget_redrive
local function forget_redrive(job)
  redis.call('HDEL', redrives, job, job .. ' score', job .. ' member', job .. ' last_score', job .. ' last_member')
  for _, name in ipairs(OF_REDRIVE) do
    redis.call('HDEL', redrives, job .. ' ' .. name)
  end
  redis.call('ZREM', redriving, job)
end
