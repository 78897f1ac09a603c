-- The ids that a claim was given, but for those that a sweep or a division took away. These leave their lines of its
-- list empty, so a line means the same message for as long as the claim lives.
-- needs: keys: claims
-- gives: claimed
local MOST = 1000 -- messages that a claim is given at most

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
