-- Lets in the next of each lane whose slot has passed by the rate of keys, and forgets the slot: two per message that a
-- claim takes.
-- needs: now, rule, let_in; keys: slots
-- gives: pass_slots
local SPARE, PASSED = 10, 1000 -- lanes, as many as lib/let_in reads (I9)

local function pass_slots(count)
  local names = redis.call('ZRANGEBYSCORE', slots, '-inf', now, 'LIMIT', 0, math.min(2 * count + SPARE, PASSED))
  if #names == 0 then
    return
  end
  local lanes = {}
  for n, name in ipairs(names) do
    lanes[n] = tonumber(name)
  end
  if rule.interval then
    let_in(lanes)
  end
  redis.call('ZREM', slots, unpack(names)) -- last: by these the next claim finds what a cut-off script left
end
