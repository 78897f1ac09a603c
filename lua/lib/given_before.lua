-- What this token was given before and still holds: the reply of a claim that is repeated (I12).
-- @include lib/holds
local said = attributed == '1' and '\n' .. (redis.call('HGET', claims, token .. ':begun') or '') .. '\n'
local first, begun = nil, not said
for id in given:match('\n.*'):gmatch('[^\n]+') do
  local text, record = redis.call('HGET', states, id), redis.call('HGET', messages, id)
  if record and holds(token, text) then
    first, begun = first or id, begun or said:find('\n' .. id .. '\n', 1, true)
    if answer == 'rows' then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, text
      reply[#reply + 1] = redis.call('HGET', history, id) or ''
    end
  end
end
if first then
  if not begun then -- what it was to begin with, it holds no more
    redis.call('HSET', claims, token .. ':begun', first)
  end
  if answer == 'count' then
    reply[3] = select(2, given:gsub('\n', '\n')) -- of all that it was given: so many places its list has
  end
  redis.call('ZADD', leases, now + lease, token) -- which is how the client reads this reply
  return reply
end
