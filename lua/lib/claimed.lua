-- The ids that a claim was given, of `limit` places of its list from `first` on. What a sweep or a division took
-- away left its place empty, so that a place means the same message for as long as the claim lives.
local function claimed(token, first, limit)
  local list = (redis.call('HGET', claims, token) or ''):match('\n(.*)$') or ''
  local ids, place = {}, 0
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    if place >= first + limit then
      break
    end
    if id ~= '' and place >= first then
      ids[#ids + 1] = id
    end
    place = place + 1
  end
  return ids
end
