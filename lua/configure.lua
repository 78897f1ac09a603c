-- What holds for the queue from now on: the outcome of the map of policies, worked out by a client from the map's
-- `version` and from what the queue's own program `declared`. Where the settings have changed since that client looked,
-- nothing is written, and it looks again. Empty: not said. Returns 1, or 0 where it has to look again.
local settings = KEYS[1]
local version, version_before, declared_before, declared = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local redelivery, dead_letter, expiry = ARGV[5], ARGV[6], ARGV[7]
local max_in_flight, outcomes, names = ARGV[8], ARGV[9], ARGV[10]
local known = redis.call('HMGET', settings, 'version', 'declared')
if (known[1] or '') ~= version_before or (known[2] or '') ~= declared_before then
  return 0
end
local said = { declared = declared, redelivery = redelivery, dead_letter = dead_letter }
said.expiry, said.max_in_flight, said.outcomes, said.names = expiry, max_in_flight, outcomes, names
local unsaid, cells = {}, { 'version', version }
for name, value in pairs(said) do
  if value == '' then
    unsaid[#unsaid + 1] = name
  else
    cells[#cells + 1], cells[#cells + 2] = name, value
  end
end
if #unsaid > 0 then
  redis.call('HDEL', settings, unpack(unsaid))
end
redis.call('HSET', settings, unpack(cells)) -- from here on it holds
return 1
