-- Looks at messages without touching them. Returns id, record, state, history, lease deadline for each: those
-- of the items, or a page of one index in its order, from the rank `first`.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local ready, scheduled, dead, expired, leases = KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local place, first, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, dead or expired
-- items from ARGV[4]: id
-- The id in a member of an index (see lib/place for what stands before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
local ids = {}
if #ARGV >= 4 then
  for i = 4, #ARGV do
    ids[#ids + 1] = ARGV[i]
  end
else
  local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
  for _, row in ipairs(redis.call('ZRANGE', index, first, first + limit - 1)) do
    ids[#ids + 1] = id_of(row)
  end
end
local reply = {}
for _, id in ipairs(ids) do
  local record = redis.call('HGET', messages, id)
  if record then
    local state = redis.call('HGET', states, id)
    local token = state and state:match(' %+(%S+) ')
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, state or ''
    reply[#reply + 1] = redis.call('HGET', history, id) or ''
    reply[#reply + 1] = token and redis.call('ZSCORE', leases, token) or ''
  end
end
return reply
