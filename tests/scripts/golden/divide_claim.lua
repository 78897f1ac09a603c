-- Divides a claim: it keeps the first `keep` messages that it still holds, and the others go to another token, under a
-- lease that ends at the same time. The messages stay leased; their counts and histories do not change. The call can be
-- repeated. Returns how many messages the other token holds.
-- drains
local token, to, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])
local states, leases, claims = KEYS[1], KEYS[2], KEYS[3]
-- The ids that a claim was given, except those that a sweep or a division took away. These leave empty lines in its list,
-- so a line means the same message as long as the claim lives.
local MOST = 1000 -- the most messages that a claim is given

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
-- The fence (I2): only the token that holds a message may settle it.
local needle_of, needle
local function holds(token, text)
  if token ~= needle_of then
    needle_of, needle = token, ' +' .. token .. ' '
  end
  return text and text:find(needle, 1, true) ~= nil
end
local maker, list = (redis.call('HGET', claims, token) or '\n'):match('^([^\n]*)\n(.*)$')
local ends = redis.call('ZSCORE', leases, token) or 0
local given, wanted = claimed(to), {}
for _, id in ipairs(given) do -- an earlier call made this division, or a part of it
  wanted[id] = true
end

local ids, moved, stated, kept = claimed(token), {}, {}, 0
local texts = #ids > 0 and redis.call('HMGET', states, unpack(ids)) or {}
for n, id in ipairs(ids) do
  if holds(token, texts[n]) then
    if wanted[id] or #given == 0 and kept == keep then
      local first, last = texts[n]:find(' +' .. token .. ' ', 1, true)
      moved[#moved + 1], wanted[id] = id, true
      stated[#stated + 1], stated[#stated + 2] = id, texts[n]:sub(1, first) .. '+' .. to .. texts[n]:sub(last)
    else
      kept = kept + 1
    end
  end
end
if #moved > 0 then
  redis.call('ZADD', leases, ends, to)
  local its = maker:gsub('^([^\t]*\t[^\t]*\t)%d+', '%1') -- without the line where the sweep of the first claim continues
  redis.call('HSET', claims, to, its .. '\n' .. table.concat(moved, '\n'), to .. ':held', #moved)
  redis.call('HSET', states, unpack(stated)) -- from here on the other token holds them
end
if kept > 0 then
  local left = list:gsub('[^\n]+', function(id)
    return wanted[id] and '' or id
  end)
  redis.call('HSET', claims, token, maker .. '\n' .. left, token .. ':held', kept)
else
  redis.call('HDEL', claims, token, token .. ':held')
  redis.call('ZREM', leases, token) -- last: by this row a sweep finds what a cut-off script left
end
return tonumber(redis.call('HGET', claims, to .. ':held') or 0)
