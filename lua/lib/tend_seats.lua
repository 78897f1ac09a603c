-- The part of lib/tend that looks at seats and passes, some a call: those go that nobody should hold. Returns where the next
-- call goes on.
--   place: what the last one returned; nil: from the front
-- needs: PASS, vacate, rows_of_range, seat_is_due, pass_is_due; keys: seats
-- gives: tend_seats
local SEATS = 100 -- that one call looks at (I9)

local function tend_seats(place)
  local score, member = (place or ''):match('^(%S+) (.*)$')
  local range = { score = score or '-inf', member = member or '', last_score = '+inf', last_member = '\255', limit = SEATS }
  local held, next_score, next_member = rows_of_range(seats, range)
  local lost = {}
  for _, id in ipairs(held) do
    local own = tonumber(redis.call('ZSCORE', seats, id) or 0)
    local keeps
    if id:sub(1, 1) == PASS then
      keeps = pass_is_due(id:sub(2), own)
    else
      keeps = seat_is_due(id, own)
    end
    if not keeps then
      lost[#lost + 1] = id
    end
  end
  if #lost > 0 then
    vacate(lost)
  end
  return (next_score == '' and '-inf' or next_score) .. ' ' .. next_member
end
