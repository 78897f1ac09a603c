-- Lists groups of dead letters, in the order of their fingerprints, and changes nothing. Returns now; 1 if every dead
-- letter is in a group (otherwise regroup.lua must run first); the group after which the list continues (empty: it is
-- complete); then for each group its name, its number of dead letters, the first and the last time of death (6 bytes each),
-- how many died within the last hour and the last day, when it was last cleared (empty: unknown), id, state and failure
-- line of each of its newest dead letters, and whether it is muted (lua/mute.lua).
local after, prefix, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- prefix: the first digits of the groups; empty: all
local NEWEST = 10 -- dead letters
local HOUR, DAY = 3600000, 86400000 -- milliseconds
local MOST = 524288 -- bytes, or one group (I9)
local states, history, dead, groups, cleared = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local muted = KEYS[6]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- The id in a member of an index (lib/order describes the bytes before it).
local function id_of(member)
  return member:sub(member:byte(1) < 16 and 9 or 3)
end
-- The half of a message that is written once; only its priority may change, and a redrive may edit it:
--   7 bytes  birth: its millisecond * 4096 + its number there; unique among what is sent to a queue
--   1 byte   flags: the priority in the low four bits, 0x10 if an expiry follows, 0x80 for a message that is not kept
--            when it fails (persistent=False); the other bits are the sender's
--   6 bytes  expiry in milliseconds, only with that flag
--   …        fields, headers and body, as the sender packed them; scripts read only the first fields (lib/lanes_in)
-- Flags of 0x0F, and the mark of a version after them: a record of a later form (lib/is_later).

-- A whole number in `width` bytes, at most seven. Each step is spelled out, since a loop costs as much as a command.
local function pack_number(value, width)
  local g = value % 256
  value = (value - g) / 256
  local f = value % 256
  value = (value - f) / 256
  local e = value % 256
  value = (value - e) / 256
  local d = value % 256
  value = (value - d) / 256
  local c = value % 256
  value = (value - c) / 256
  local b = value % 256
  return string.char((value - b) / 256 % 256, b, c, d, e, f, g):sub(-width)
end
-- The line of the newest failure in a history (lib/remember); empty: no failure.
local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

local function last_failure(story)
  local first, from, to = 1, 1, 0
  while first <= #story do
    local last = (story:find('\n', first, true) or #story + 1) - 1
    if FAILURES[story:match('^[%a_]*', first)] then
      from, to = first, last
    end
    first = last + 2
  end
  return story:sub(from, to)
end
local LINE = '^' .. ('[^\t]*\t'):rep(5) .. '[^\t]*' -- without the traceback

local reply, spent = { now, redis.call('ZCARD', dead) == redis.call('ZCARD', groups) and 1 or 0, '' }, 0

local function newest_of(name)
  local letters = {}
  local rows = redis.call('ZRANGE', groups, '(' .. name .. '\255', '[' .. name, 'BYLEX', 'REV', 'LIMIT', 0, NEWEST)
  for _, row in ipairs(rows) do
    local id = id_of(row:sub(19))
    local story = redis.call('HGET', history, id) or ''
    local size = #letters
    letters[size + 1], letters[size + 2] = id, redis.call('HGET', states, id) or ''
    letters[size + 3] = last_failure(story):match(LINE) or ''
    spent = spent + #story
  end
  return letters
end

local low, high = after == '' and '[' .. prefix or '(' .. after .. '\255', '(' .. prefix .. '\255'
while true do
  local row = redis.call('ZRANGE', groups, low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
  if not row then
    return reply
  elseif #reply - 3 == limit or spent > MOST then
    reply[3] = reply[#reply][1]
    return reply
  end
  local name = row:sub(1, 12)
  local stop = '(' .. name .. '\255'
  local last = redis.call('ZRANGE', groups, stop, '[' .. name, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local hour, day = '[' .. name .. pack_number(now - HOUR, 6), '[' .. name .. pack_number(now - DAY, 6)
  reply[#reply + 1] = {
    name, redis.call('ZLEXCOUNT', groups, '[' .. name, stop), row:sub(13, 18), last:sub(13, 18),
    redis.call('ZLEXCOUNT', groups, hour, stop), redis.call('ZLEXCOUNT', groups, day, stop),
    redis.call('ZSCORE', cleared, name) or '', newest_of(name), redis.call('HGET', muted, name) or '',
  }
  low = '(' .. name .. '\255'
end
