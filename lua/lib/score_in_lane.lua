-- The score in `scheduled` of a new message with a key that gets no seat of its lane, as in lib/enter; false: it gets one,
-- or has one since a send was cut off. `taken_seats`: lanes and ids, which are written before the rows.
-- needs: lanes_in, rule, BLOCKED, digits, free_seats, seat_in, promote, wake_one; keys: seats, scheduled
-- gives: score_in_lane, taken_seats
local taken_seats, rooms, somebody_waits = {}, {}, nil -- rooms: lane → free seats

local function room_of(lane)
  if somebody_waits == nil then
    if promote() > 0 then -- one that was delayed, and is due by now, is in front of those that are sent
      wake_one()
    end
    somebody_waits = redis.call('ZCOUNT', scheduled, BLOCKED, '+inf') > 0
  end
  local score = digits(BLOCKED + lane)
  if somebody_waits and redis.call('ZCOUNT', scheduled, score, score) > 0 then
    return 0
  end
  return free_seats(lane)
end

local function score_in_lane(id, payload)
  local lane = lanes_in(payload, 2)
  if not lane or rule.limit == math.huge then
    return false
  end
  local room = rooms[lane] or room_of(lane)
  rooms[lane] = math.max(room - 1, 0)
  if room > 0 then
    taken_seats[#taken_seats + 1], taken_seats[#taken_seats + 2] = seat_in(lane), id
    return false
  end
  return not redis.call('ZSCORE', seats, id) and digits(BLOCKED + lane)
end
