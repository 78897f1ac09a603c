-- The part of lib/tend that reads seats and passes, some per call: those go that no message should hold. Returns where the
-- next call continues.
--   place: the value that the last call returned; nil: from the front
-- needs: PASS, rule, setting, vacate, rows_of_range, seat_is_due, pass_is_due; keys: seats, settings
-- gives: tend_seats
local SEATS = 100 -- seats that one call reads (I9)

local function tend_seats(place)
  local score, member = (place or ''):match('^(%S+) (.*)$')
  local range = { score = score or '-inf', member = member or '', last_score = '+inf', last_member = '\255', limit = SEATS }
  local held, next_score, next_member = rows_of_range(seats, range)
  local lost, of_keys = {}, {}
  for _, id in ipairs(held) do
    local own = tonumber(redis.call('ZSCORE', seats, id) or 0)
    local keeps
    if id:sub(1, 1) == PASS then
      keeps = pass_is_due(id:sub(2), own)
    else
      keeps, of_keys[#of_keys + 1] = seat_is_due(id, own), id
    end
    if not keeps then
      lost[#lost + 1] = id
    end
  end
  if #lost > 0 then
    vacate(lost)
  end
  if #of_keys > 0 and (setting('narrowed') or not rule.in_turn) then
    -- needs: narrow, NARROWED
    local _, too_many = narrow(redis.call('ZMSCORE', seats, unpack(of_keys)), of_keys)
    if too_many then -- until these are done, claims look for such lanes
      redis.call('HSET', settings, 'narrowed', NARROWED)
    end
  end
  return (next_score == '' and '-inf' or next_score) .. ' ' .. next_member
end
