-- The ids that a claim was given, except those that a sweep or a division took away. These leave empty lines in its list,
-- so a line means the same message as long as the claim lives.
-- needs: keys: claims
-- gives: claimed
local MOST = 1000 -- the most messages that a claim is given

local function claimed(token)
  local list = (redis.call('HGET', claims, token) or ''):match('\n(.*)$') or ''
  local ids, size = {}, 0
  for id in list:gmatch('[^\n]+') do
    if size == MOST then
      break
    end
    size = size + 1
    ids[size] = id
  end
  return ids
end
