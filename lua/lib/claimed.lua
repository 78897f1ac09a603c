-- The ids that a claim was given: those on `limit` lines of its list, from line `first` (0, 1, …). What a sweep or a
-- division took away leaves its line empty, so a line means the same message for as long as the claim lives.
-- needs: keys: claims
-- gives: claimed
local function claimed(token, first, limit)
  local list = (redis.call('HGET', claims, token) or ''):match('\n(.*)$') or ''
  local ids, position = {}, 0
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    if position >= first + limit then
      break
    end
    if id ~= '' and position >= first then
      ids[#ids + 1] = id
    end
    position = position + 1
  end
  return ids
end
