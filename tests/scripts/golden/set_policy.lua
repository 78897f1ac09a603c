-- Writes an entry of the map of policies; empty: removes it. Returns the map's version and the entry that was replaced.
local pattern, entry = ARGV[1], ARGV[2]
local policies = KEYS[1]
local replaced = redis.call('HGET', policies, pattern)
local version = tonumber((redis.call('HGET', policies, '#version') or ''):match('^%d+$') or nil) or 0
if (replaced or '') ~= entry then
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
