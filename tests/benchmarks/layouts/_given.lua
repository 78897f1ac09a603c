-- The same token again: what it still holds, and nothing new.
local function given_before()
  local reply = {}
  local claim = redis.call('HGET', claims, token)
  for id in (claim and claim:match('\n.*') or ''):gmatch('[^\n]+') do
    local text = state_of(id)
    if holds(token, text) then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record_of(id), text
    end
  end
  return #reply > 0 and reply
end
