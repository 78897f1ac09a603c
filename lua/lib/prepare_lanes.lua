-- Before a claim takes messages of a queue with a rule for keys, or with closed lanes: handles gates and slots that are due
-- (lib/pass_gates, lib/pass_slots), and repairs lanes, once a second (lib/tend). If lanes take turns and fewer messages are
-- ready than it may take, it lets in the rest from all lanes alike, so that even one lane fills a batch. These are handed
-- out now, so no lane exceeds its window permanently.
-- needs: now; keys: ready, tended
-- gives: prepare_lanes
local PAUSE = 1000 -- milliseconds between two calls of tend

local function prepare_lanes(per_key, paced, gated, capacity)
  if gated and capacity > 0 then
    -- needs: pass_gates
    pass_gates()
  end
  if paced and capacity > 0 then
    -- needs: pass_slots
    pass_slots(capacity)
  end
  local at = tonumber((redis.call('GET', tended) or ''):match('^%d+') or 0)
  if at > now or now >= at + PAUSE then -- or the clock stepped back
    -- needs: tend
    tend()
  end
  local lacking = per_key and not paced and per_key:find('^fair') and capacity - redis.call('ZCARD', ready) or 0
  if lacking > 0 then
    -- needs: fill
    fill(lacking)
  end
end
