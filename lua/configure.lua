-- Writes the settings of a queue. A client works them out from the map of policies, of this `version`, and from what
-- the queue's own program declared. If the settings have changed since that client looked, nothing is written and the
-- client looks again. Fields that are not passed stay as they are. Returns 1, or 0 where the client has to look again.
local version, version_before, declared_before = ARGV[1], ARGV[2], ARGV[3]
-- items from ARGV[4]: name of a field, value (empty: not set)
-- needs: keys: settings
local known = redis.call('HMGET', settings, 'version', 'declared')
if (known[1] or '') ~= version_before or (known[2] or '') ~= declared_before then
  return 0
end
local unset, cells = {}, { 'version', version }
for i = 4, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  if value == '' then
    unset[#unset + 1] = name
  else
    cells[#cells + 1], cells[#cells + 2] = name, value
  end
end
if #unset > 0 then
  redis.call('HDEL', settings, unpack(unset))
end
redis.call('HSET', settings, unpack(cells)) -- from here on it holds
return 1
