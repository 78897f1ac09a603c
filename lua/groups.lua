-- Lists groups of dead letters, in the order of their fingerprints, and changes nothing. Returns now; 1 if every dead
-- letter is in a group (otherwise regroup.lua must run first); the group after which the list continues (empty: it is
-- complete); then for each group its name, its number of dead letters, the first and the last time of death (6 bytes each),
-- how many died within the last hour and the last day, when it was last cleared (empty: unknown), id, state and failure
-- line of each of its newest dead letters, and whether it is muted (lua/mute.lua).
local after, prefix, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- prefix: the first digits of the groups; empty: all
local NEWEST = 10 -- dead letters
local HOUR, DAY = 3600000, 86400000 -- milliseconds
local MOST = 524288 -- bytes, or one group (I9)
-- needs: now, id_of, pack_number, last_failure; keys: states, history, dead, groups, cleared, muted
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
