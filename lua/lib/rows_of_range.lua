-- The first `limit` rows of an index after (score, member), up to (last_score, last_member); then the score and the member
-- of the last of them, if more follow, otherwise both empty.
-- needs: rows_up_to
-- gives: rows_of_range
local function rows_of_range(index, range)
  local low = rows_up_to(index, range.score, range.member)
  local stop = rows_up_to(index, range.last_score, range.last_member)
  local high = math.min(low + range.limit, stop)
  if low >= high then
    return {}, '', ''
  end
  local rows = redis.call('ZRANGE', index, low, high - 1)
  if high >= stop then
    return rows, '', ''
  end
  return rows, redis.call('ZSCORE', index, rows[#rows]), rows[#rows]
end
