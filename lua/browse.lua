-- Looks at messages without touching them. Returns id, record, state, history, lease deadline for each: those
-- of the items that are in the place, or a page of the place in its order, from the rank `first`; of what is leased,
-- a page of the leases, the first to lapse first.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local ready, scheduled, dead, expired = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local leases, claims = KEYS[8], KEYS[9]
local place, first, limit = ARGV[1], ARGV[2], ARGV[3] -- place: ready, scheduled, leased, dead, expired; empty: any
-- items from ARGV[4]: id
-- @include lib/record
-- @include lib/state
-- @include lib/place
-- @include lib/id_of
local index = ({ ready = ready, scheduled = scheduled, leased = leases, dead = dead, expired = expired })[place]

local function is_there(id, record, text)
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  if place == 'leased' then
    return state.mark == '+'
  end
  return state.mark == '-' and redis.call('ZSCORE', index, member_of(id, head, state.due))
end

local ids = {}
if #ARGV >= 4 then
  for i = 4, #ARGV do
    ids[#ids + 1] = ARGV[i]
  end
else
  for _, row in ipairs(redis.call('ZRANGE', index, first, first + limit - 1)) do
    if place == 'leased' then
      for id in (redis.call('HGET', claims, row) or ''):gmatch('\n([^\n]+)') do
        ids[#ids + 1] = id
      end
    else
      ids[#ids + 1] = id_of(row)
    end
  end
end
local doubtful = #ARGV >= 4 and place ~= '' or place == 'leased' -- a claim lists what it held at first
local reply = {}
for _, id in ipairs(ids) do
  local record = redis.call('HGET', messages, id)
  local state = redis.call('HGET', states, id) or ''
  if record and (not doubtful or is_there(id, record, state)) then
    local token = state:match(' %+(%S+) ')
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, record, state
    reply[#reply + 1] = redis.call('HGET', history, id) or ''
    reply[#reply + 1] = token and redis.call('ZSCORE', leases, token) or ''
  end
end
return reply
