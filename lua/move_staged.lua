-- Moves messages of a committed job from the head of one of its lists into the queue. Returns how many, and how many
-- of them the queue knew; 0 where there are no more, or where it is too early for a caller that did not commit them.
local member, limit, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) -- milliseconds
local early = ARGV[5] -- 1: from the caller that committed them
local MOST = 524288 -- bytes, or one message (I9)
-- needs: now, add; keys: committed, staged
local due = tonumber(redis.call('ZSCORE', committed, member) or nil)
if not due or (due > now and early ~= '1') then
  return { 0, 0 }
end
local items, bytes, pair, known = {}, 0, { '', '' }, {} -- items: id, payload, …
while #pair == 2 and #items < 2 * limit and bytes <= MOST do -- one by one: a list does not tell how long they are
  pair = redis.call('LRANGE', staged, #items, #items + 1)
  items[#items + 1], items[#items + 2] = pair[1], pair[2]
  bytes = bytes + #(pair[2] or '')
end
if #items > 0 then
  known = add(items, 1, #items, delay, ttl)
  redis.call('LTRIM', staged, #items, -1) -- if cut off before, they are added again, which changes nothing (I12)
end
if redis.call('EXISTS', staged) == 0 then
  redis.call('ZREM', committed, member)
end
return { #items / 2, #known }
