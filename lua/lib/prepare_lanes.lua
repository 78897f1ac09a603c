-- Before a claim takes messages of a queue where keys count, or lanes are closed: sees to what falls due (lib/pass_gates,
-- lib/pass_slots), and
-- repairs lanes, once a second (lib/tend); and where lanes take turns and less is ready than it may take, lets in the rest from
-- all lanes alike, so that a batch is filled even by one lane. What is let in so is handed out now, so no lane has more than
-- its window for good.
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
