-- Writes the settings of a queue. A client computes them from the map of policies, of this `version`, and from the settings
-- that the queue's own program declared. If the settings have changed since that client read them, nothing is written and
-- the client reads them again. Fields that are not passed stay as they are. If keys lose their rule, `per_key` is off until
-- no message is blocked (lib/tend). If keys get a rule or a rate, or the queue gets a breaker, or one whose probes 0.1.0 does
-- not know (`probing`), it must be opened again, so that no program continues that does not know these. If keys may have fewer seats than before, by the rule or since one had a
-- limit of its own, claims look for those that are too many until lib/tend has come to the last seat twice. Returns 1, or 0 if
-- the client must read again.
local version, version_before, declared_before = ARGV[1], ARGV[2], ARGV[3]
-- items from ARGV[4]: name of a field, value (empty: not set)
local settings = KEYS[1]
-- How many walks over all seats lib/tend ends before the setting `narrowed` is cleared: one may be half done when it is set.
local NARROWED = 2
local known = redis.call('HMGET', settings, 'version', 'declared', 'per_key', 'opening', 'breaker', 'limited', 'probing')
if (known[1] or '') ~= version_before or (known[2] or '') ~= declared_before then
  return 0
end

-- How many seats a rule for keys gives to a lane (lib/rule).
local function seats_by(rule)
  return tonumber(rule:match('^limit (%d+)') or rule:match('^fair (%d+)')) or rule == 'off' and math.huge or 1
end

local unset, cells = {}, { 'version', version }
for i = 4, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  local was_off = name == 'per_key' and (not known[3] or known[3] == 'off') or (name == 'breaker' and not known[5] or name == 'probing' and not known[7])
  local gets_rate = name == 'per_key' and value:find('rate ', 1, true) and not (known[3] or ''):find('rate ', 1, true)
  if name == 'per_key' and value == '' and known[3] then
    value = 'off'
  elseif (was_off or gets_rate) and value ~= '' and known[4] then
    cells[#cells + 1], cells[#cells + 2] = 'opening', known[4] .. 'k'
  end
  if name == 'per_key' and value ~= '' and (known[6] or known[3] and seats_by(value) < seats_by(known[3])) then
    cells[#cells + 1], cells[#cells + 2] = 'narrowed', NARROWED
  end
  if value == '' then
    unset[#unset + 1] = name
  else
    cells[#cells + 1], cells[#cells + 2] = name, value
  end
end
if #unset > 0 then
  redis.call('HDEL', settings, unpack(unset))
end
redis.call('HSET', settings, unpack(cells)) -- from here on they are in force
return 1
