-- Moves messages of a committed job from the head of one of its lists into the queue. Returns how many, and how many of
-- them the queue already had; 0 if none is left, or if it is too early for a caller that did not commit them.
local member, limit, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) -- milliseconds
local early = ARGV[5] -- 1: from the caller that committed them
local longest = tonumber(ARGV[6]) -- the largest payload in bytes, as the caller estimates it
local MOST = 524288 -- bytes, or one message (I9)
-- needs: now, add; keys: committed, staged
local due = tonumber(redis.call('ZSCORE', committed, member) or nil)
if not due or (due > now and early ~= '1') then
  return { 0, 0 }
end
local items, bytes, wanted, known = {}, 0, 0, {} -- items: id, payload, …
while #items == wanted and wanted < 2 * limit and bytes <= MOST do -- Redis does not report the sizes of a list's items
  wanted = math.min(wanted + 2 * math.max(1, math.floor((MOST - bytes) / longest)), 2 * limit)
  local part, before = redis.call('LRANGE', staged, #items, wanted - 1), #items
  if wanted == 2 * limit and before == 0 then -- one read is enough
    items = part
    break
  end
  for n, item in ipairs(part) do
    items[before + n], bytes = item, bytes + #item
  end
end
if #items > 0 then
  known = add(items, 1, #items, delay, ttl, '')
  redis.call('LTRIM', staged, #items, -1) -- if cut off before this, a repetition adds them again, which changes nothing (I12)
end
if redis.call('EXISTS', staged) == 0 then
  redis.call('ZREM', committed, member)
end
return { #items / 2, #known / 2 }
