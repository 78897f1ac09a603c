-- Reads a range of an index, a page a call, and changes nothing. A row that stays where it is is seen exactly once,
-- whatever comes and goes between two pages: the next page begins after the score and the member of the last row, even
-- where that row is gone (from the newest on, it ends at the row before the first). Returns the score and the member
-- at which the next page begins or ends (empty: the range is over), then the ids, the records, the states and the
-- histories, each a list. An id is nil where there is no such message. Of `leased`, the ids are the claims' tokens.
local place, order = ARGV[1], ARGV[2] -- place: as in browse; order: oldest or newest first
local record, state, story = ARGV[3], ARGV[4], ARGV[5] -- what to return: whole, head or no; yes or no; yes or no
local limit, score, member = tonumber(ARGV[6]), ARGV[7], ARGV[8] -- of the row after which the range begins
local last_score, last_member = ARGV[9], ARGV[10] -- of the last row of the range
-- needs: rows_up_to, id_of; keys: messages, states, history, ready, scheduled, leases, dead, expired
local index = ({ ready = ready, scheduled = scheduled, leased = leases, dead = dead, expired = expired })[place]
local part = (place == 'dead' or place == 'expired') and place or 'live'

-- Whether the row was left behind by a script that was cut off. Only a state that contradicts the row is looked into.
local function is_elsewhere(row, id, text)
  local said, mark = text:match('^(%a+)/?%a* ([+-])')
  if not said or said == part and mark == '-' then
    return false
  end
  -- needs: read_record, parse_state, left_over
  local head = read_record(redis.call('HGET', messages, id))
  return left_over(index, row, id, parse_state(text, head.birth), head)
end

local first, stop = rows_up_to(index, score, member), rows_up_to(index, last_score, last_member)
local low, high = first, math.min(first + limit, stop)
if order == 'newest' then
  low, high = math.max(first, stop - limit), stop
end
if low >= high then
  return { '', '', {}, {}, {}, {} }
end
local rows = redis.call('ZRANGE', index, low, high - 1)
local next_score, next_member = '', ''
if order == 'newest' and low > first then
  next_member = redis.call('ZRANGE', index, low - 1, low - 1)[1]
elseif order == 'oldest' and high < stop then
  next_member = rows[#rows]
end
if next_member ~= '' then
  next_score = redis.call('ZSCORE', index, next_member)
end
if place == 'leased' then
  return { next_score, next_member, rows, {}, {}, {} }
end
local ids, row_of = {}, {}
for n, row in ipairs(rows) do
  local id = id_of(row)
  ids[order == 'newest' and #rows + 1 - n or n], row_of[id] = id, row
end
local texts = redis.call('HMGET', states, unpack(ids))
local records = record == 'no' and {} or redis.call('HMGET', messages, unpack(ids))
local stories = story == 'yes' and redis.call('HMGET', history, unpack(ids)) or {}
for n, id in ipairs(ids) do
  local is_known = records[n] or record == 'no' and redis.call('HEXISTS', messages, id) == 1
  if not is_known or texts[n] and is_elsewhere(row_of[id], id, texts[n]) then
    ids[n] = false
  elseif record == 'head' then
    records[n] = records[n]:sub(1, 14)
  end
end
return { next_score, next_member, ids, records, state == 'yes' and texts or {}, stories }
