-- Looks at a range of an index, a page a call, and touches nothing. A row that stays where it is is seen exactly
-- once, whatever comes and goes between two pages: the next one begins after the last row, by its score and its
-- member, even where that row is gone. Returns the score and the member of the last row (empty: the range is over),
-- then the ids, the records, the states, the histories, each a list; an id is nil where there is no such message.
local messages, states, history = KEYS[1], KEYS[2], KEYS[3]
local ready, scheduled, dead, expired = KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local place, limit = ARGV[1], tonumber(ARGV[2]) -- place: ready, scheduled, dead, expired
local record, state, story = ARGV[3], ARGV[4], ARGV[5] -- what is wanted: whole, head or no; yes or no; yes or no
local score, member = ARGV[6], ARGV[7] -- of the row after which to begin
local last_score, last_member = ARGV[8], ARGV[9] -- of the last row of the range
-- The id in a member of an index (see lib/place for what stands before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
local index = ({ ready = ready, scheduled = scheduled, dead = dead, expired = expired })[place]
local part = (place == 'dead' or place == 'expired') and place or 'live'

-- By bytes, as Redis sorts; Lua compares by the server's locale.
local function is_after(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = one:byte(i), other:byte(i)
    if a ~= b then
      return a > b
    end
  end
  return #one > #other
end

-- How many rows stand before a place or in it: those of a lower score, and of the equal ones as a search finds.
local function rows_up_to(at, name)
  local low = redis.call('ZCOUNT', index, '-inf', '(' .. at)
  local high = low + redis.call('ZCOUNT', index, at, at)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_after(redis.call('ZRANGE', index, middle, middle)[1], name) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- Whether the row was left behind by a script that was cut off. A state that says nothing contradicts nothing.
local function is_elsewhere(text)
  local said, mark = text:match('^(%a+)/?%a* ([+-])')
  return (said == 'live' or said == 'dead' or said == 'expired') and (said ~= part or mark == '+')
end

local first = rows_up_to(score, member)
local stop = rows_up_to(last_score, last_member)
local rows = first < stop and redis.call('ZRANGE', index, first, math.min(first + limit, stop) - 1) or {}
if #rows == 0 then
  return { '', '', {}, {}, {}, {} }
end
local ids = {}
for n, row in ipairs(rows) do
  ids[n] = id_of(row)
end
local records, texts = redis.call('HMGET', messages, unpack(ids)), redis.call('HMGET', states, unpack(ids))
local stories = story == 'yes' and redis.call('HMGET', history, unpack(ids)) or {}
for n = 1, #ids do
  if not records[n] or texts[n] and is_elsewhere(texts[n]) then
    ids[n] = false
  elseif record == 'head' then
    records[n] = records[n]:sub(1, 14)
  end
end
local over = first + #rows >= stop
local next_score = over and '' or redis.call('ZSCORE', index, rows[#rows])
local wanted_records, wanted_states = record == 'no' and {} or records, state == 'no' and {} or texts
return { next_score, over and '' or rows[#rows], ids, wanted_records, wanted_states, stories }
