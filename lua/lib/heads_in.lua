-- Lets in the heads of these lanes, as many as seats are free: they become ready, behind all messages that are due by now.
-- Record and state are checked: a row whose message is gone, leased or elsewhere is dropped, and the next is taken.
--   room: lane → how many of it, even without free seats; nil: as many as seats are free
-- needs: BLOCKED, TRIED, id_of, is_blocked_row, next_score, wake_one, is_gated, digits, free_seats, seat_in, setting, lanes_read
-- needs: keys: messages, states, seats, ready, scheduled
-- gives: heads_in
local MOST = 1000 -- rows that one call reads (I9)

-- The first rows of these lanes, their ids, their lanes, and the scores of the seats that they get.
local function heads_of(lanes, room)
  local rows, ids, lane_of, seat_of, count = {}, {}, {}, {}, 0
  local gates = setting('gated') or next(lanes_read)
  for n = 1, #lanes do
    local lane = lanes[n]
    local free, seat
    if gates and is_gated(lane) then
      free = 0
    elseif room then
      free, seat = room[lane], seat_in(lane)
    else
      free, seat = free_seats(lane)
    end
    free = math.min(free, MOST - count)
    if free > 0 then
      local score = digits(BLOCKED + lane)
      local found = redis.call(
        'ZRANGEBYSCORE', scheduled, score, score .. TRIED, 'LIMIT', '0', free == 1 and '1' or digits(free)
      )
      for at = 1, #found do
        count = count + 1
        rows[count], ids[count], lane_of[count], seat_of[count] = found[at], id_of(found[at]), lane, seat
      end
    end
  end
  return rows, ids, lane_of, seat_of
end

local heads_in
function heads_in(lanes, room)
  local rows, ids, lane_of, seat_of = heads_of(lanes, room)
  if #rows == 0 then
    return
  end
  local texts, records = redis.call('HMGET', states, unpack(ids)), redis.call('HMGET', messages, unpack(ids))
  local taken, came, again, dropped, last = {}, {}, {}, {}, 0
  for n = 1, #rows do
    local row, id = rows[n], ids[n]
    if is_blocked_row(row, id, texts[n], records[n]) then
      taken[last + 1], taken[last + 2] = seat_of[n], id
      came[last + 1], came[last + 2] = next_score(row:byte(1)), row
      last = last + 2
    else
      local lane = lane_of[n]
      if not dropped[lane] then
        again[#again + 1] = lane
      end
      dropped[lane] = (dropped[lane] or 0) + 1
    end
  end
  if last > 0 then
    redis.call('ZADD', seats, unpack(taken))
    redis.call('ZADD', ready, unpack(came))
    wake_one()
  end
  redis.call('ZREM', scheduled, unpack(rows)) -- the last: by such a row the next sees what was cut off
  if #again > 0 then
    heads_in(again, room and dropped)
  end
end
