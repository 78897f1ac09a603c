-- Writes an entry of the map of policies; empty: removes it. Returns the map's version and the entry that was there before. If
-- that is neither `seen` nor the entry itself, nothing was written, since another client changed it.
local pattern, entry, seen = ARGV[1], ARGV[2], ARGV[3]
-- seen: the entry from which this one was made; empty: there was none; any: it takes the place of whatever is there
local policies = KEYS[1]
local replaced = redis.call('HGET', policies, pattern)
local before = replaced or ''
local version = tonumber((redis.call('HGET', policies, '#version') or ''):match('^%d+$') or nil) or 0
if before ~= entry and (seen == 'any' or seen == before) then
  version = version + 1
  -- First: if the script is cut off, the version is one too high, which does no harm.
  redis.call('HSET', policies, '#version', string.format('%.0f', version))
  if entry == '' then
    redis.call('HDEL', policies, pattern)
  else
    redis.call('HSET', policies, pattern, entry)
  end
end
return { version, replaced }
