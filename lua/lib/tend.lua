-- Repairs what a script that was cut off left behind in lanes: lets in blocked messages beside a free seat, makes blocked
-- messages with a seat ready, and takes seats away from messages that are gone, or hold none in their place. Reads some
-- lanes and some seats per call, and the next call continues there: however many lanes are held, each has its turn. Closed
-- lanes have gates of their own (lib/pass_gates); if none is left, the settings are cleared.
-- needs: now, rule, BLOCKED, setting, let_in, unblock, is_gated, recheck, tend_seats
-- needs: keys: scheduled, settings, lanes, gates, tended
-- gives: tend
local LANES = 100 -- lanes that one call reads (I9)
local KEPT = 600000 -- milliseconds for which the position is kept

local function tend()
  local front = string.format('%.0f', BLOCKED - 1)
  local after, place = (redis.call('GET', tended) or ''):match('^%d+ (%d+) (.*)$')
  local open = {}
  after = after or front
  for _ = 1, LANES do
    local found = redis.call('ZRANGEBYSCORE', scheduled, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    after = found or front
    if not found then
      break
    end
    local lane = math.floor(tonumber(found)) - BLOCKED -- lib/TRIED
    if is_gated(lane) then
      recheck(lane)
    else
      open[#open + 1] = lane
    end
  end
  if rule.limit < math.huge then
    let_in(open)
  else
    unblock(open)
  end
  local next_place = tend_seats(place)
  redis.call('SET', tended, now .. ' ' .. after .. ' ' .. next_place, 'PX', KEPT)
  if setting('narrowed') and next_place:find('^%-inf') and redis.call('HINCRBY', settings, 'narrowed', -1) <= 0 then
    redis.call('HDEL', settings, 'narrowed') -- every seat was read since a rule allowed fewer (lib/tend_seats)
  end
  local nobody_waits = rule.limit < math.huge or redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') == 0
  if (setting('gated') or setting('limited')) and nobody_waits and redis.call('EXISTS', lanes, gates) == 0 then
    redis.call('HDEL', settings, 'gated', 'limited')
  end
end
