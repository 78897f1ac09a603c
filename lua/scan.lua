-- Reads a range of an index, a page per call, and changes nothing. A row that stays in its place is read exactly once,
-- whatever is added or removed between two pages: the next page begins after the score and the member of the last row, even
-- if that row is gone (newest first: it ends at the row before the first). Returns the score and the member at which the
-- next page begins or ends (empty: the range is complete; half a megabyte fills a page), then lists of ids, records, states
-- and histories. An id is nil if the message does not exist. For `leased`, the ids are the claims' tokens.
local place, order = ARGV[1], ARGV[2] -- place: as in browse, or groups; order: oldest or newest first
local record, state, story = ARGV[3], ARGV[4], ARGV[5] -- parts to return: whole, head or no; yes or no; yes or no
local limit, score, member = tonumber(ARGV[6]), ARGV[7], ARGV[8] -- the row after which the range begins
local last_score, last_member = ARGV[9], ARGV[10] -- the last row of the range
-- needs: rows_up_to, id_of; keys: messages, states, ready, scheduled, leases, dead, expired, groups
local index = ({ ready = ready, scheduled = scheduled, leased = leases, dead = dead, expired = expired })[place] or groups
local part = (place == 'dead' or place == 'expired') and place or 'live'

-- Whether the row was left behind by a script that was cut off. Only rows that their states contradict are checked.
local function is_elsewhere(row, id, text)
  local actual, mark = text:match('^(%a+)/?%a* ([+-])')
  if place == 'groups' then
    -- needs: left_group
    return left_group(row, text)
  elseif not actual or actual == part and mark == '-' then
    return false
  end
  -- needs: head_of, parse_state, left_over
  local head = head_of(id, text) -- nil: of a later form, whose row may be right
  return head and left_over(index, row, id, parse_state(text, head.birth), head)
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
local ids, row_of = {}, {} -- by position: a message may have two rows
for n, row in ipairs(rows) do
  local at = order == 'newest' and #rows + 1 - n or n
  ids[at], row_of[at] = id_of(place == 'groups' and row:sub(19) or row), row
end

local texts, records, stories, kept = {}, {}, {}, #rows
if place ~= 'leased' then
  texts = redis.call('HMGET', states, unpack(ids))
  -- needs: read_parts
  kept = read_parts(ids, texts, records, stories)
end
local next_score, next_member = '', ''
if order == 'newest' and low + #rows - kept > first then
  low = low + #rows - kept
  next_member = redis.call('ZRANGE', index, low - 1, low - 1)[1]
elseif order == 'oldest' and low + kept < stop then
  next_member = rows[kept]
end
if next_member ~= '' then
  next_score = redis.call('ZSCORE', index, next_member)
end
if place == 'leased' then
  return { next_score, next_member, rows, {}, {}, {} }
end
for n = #ids, 1, -1 do
  local id = ids[n]
  if n > kept then
    ids[n], texts[n] = nil, nil
  elseif not records[n] and redis.call('HEXISTS', messages, id) == 0 or texts[n] and is_elsewhere(row_of[n], id, texts[n]) then
    ids[n] = false
  end
end
return { next_score, next_member, ids, record == 'no' and {} or records, state == 'yes' and texts or {}, stories }
