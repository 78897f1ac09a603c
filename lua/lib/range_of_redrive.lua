-- The rows that a redrive of all messages has still to take: from its position to the row that was last when it began. nil:
-- it takes the messages of its list; false: its record is damaged, and Redis would refuse these scores.
-- needs: keys: redrives
-- gives: range_of_redrive
local function is_score(cell)
  local score = tonumber(cell)
  return score ~= nil and score == score -- NaN
end

local function range_of_redrive(job)
  local came = redis.call('HMGET', redrives, job .. ' score', job .. ' member')
  local last = redis.call('HMGET', redrives, job .. ' last_score', job .. ' last_member')
  if not last[1] then
    return nil
  end
  local score = came[1] or '-inf'
  local member = came[2] or ''
  local range = { score = score, member = member, last_score = last[1], last_member = last[2] or '' }
  return is_score(score) and is_score(last[1]) and range
end
