-- An entry of the map of policies; empty: none. Returns the map's version and the entry that it replaces.
local policies = KEYS[1]
local pattern, entry = ARGV[1], ARGV[2]
local replaced = redis.call('HGET', policies, pattern)
local version = tonumber((redis.call('HGET', policies, '#version') or ''):match('^%d+$') or nil) or 0
if (replaced or '') ~= entry then
  version = version + 1
  redis.call('HSET', policies, '#version', string.format('%.0f', version)) -- first: cut off, it is one too high
  if entry == '' then
    redis.call('HDEL', policies, pattern)
  else
    redis.call('HSET', policies, pattern, entry)
  end
end
return { version, replaced }
