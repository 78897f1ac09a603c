-- Repairs what a script that was cut off left behind in lanes: lets in who waits beside a free seat, makes ready who waits with
-- one, and takes seats away from messages that are gone, or hold none where they are. Looks at some lanes and some seats a
-- call, and goes on there at the next: however many lanes are held, each has its turn.
-- needs: now, rule, BLOCKED, let_in, vacate, unblock, rows_of_range, seat_is_due; keys: scheduled, seats, tended
-- gives: tend
local LANES, SEATS = 100, 100 -- that one call looks at (I9)
local KEPT = 600000 -- milliseconds for which the place is kept

local function tend()
  if rule.limit == math.huge then
    unblock()
    return
  end
  local front = string.format('%.0f', BLOCKED - 1)
  local after, score, member = (redis.call('GET', tended) or ''):match('^%d+ (%d+) (%S+) (.*)$')
  local lanes, lost = {}, {}
  after = after or front
  for _ = 1, LANES do
    local found = redis.call('ZRANGEBYSCORE', scheduled, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    after = found or front
    if not found then
      break
    end
    lanes[#lanes + 1] = tonumber(found) - BLOCKED
  end
  let_in(lanes)
  local range = { score = score or '-inf', member = member or '', last_score = '+inf', last_member = '\255', limit = SEATS }
  local held, next_score, next_member = rows_of_range(seats, range)
  for _, id in ipairs(held) do
    if not seat_is_due(id) then
      lost[#lost + 1] = id
    end
  end
  if #lost > 0 then
    vacate(lost)
  end
  local at = now .. ' ' .. after .. ' ' .. (next_score == '' and '-inf' or next_score) .. ' ' .. next_member
  redis.call('SET', tended, at, 'PX', KEPT)
end
