-- Lets in the heads of these lanes, as many as seats are free: they become ready, behind all messages that are due by now.
-- Record and state are checked: a row whose message is gone, leased or elsewhere is dropped, and the next is taken.
--   room: how many of each lane, even without free seats; nil: as many as seats are free
-- needs: rule, BLOCKED, now, id_of, is_blocked_row, score_of, wake_one, is_gated, digits, free_seats, seat_in
-- needs: keys: messages, states, seats, ready, scheduled
-- gives: heads_in
local MOST = 1000 -- rows that one call reads (I9)
local STEP = 2 ^ -7 -- milliseconds; a score has room for it (lib/order)
local place_of = {} -- by the first byte of a row, which encodes its priority

-- The score in `ready` of the next message that is let in. If lanes take turns, it is behind all that are there: many are
-- let in within one millisecond, and among equal scores the lane with the oldest messages would have more than its share.
local function next_score(first)
  local band = score_of(9 - first, 0)
  if not rule.in_turn then
    return digits(band + now + 1)
  elseif not place_of[first] then
    local last = tonumber(redis.call('ZRANGE', ready, -1, -1, 'WITHSCORES')[2] or 0) - band
    place_of[first] = last > now and last < now + 60000 and last or now + 1
  end
  place_of[first] = place_of[first] + STEP
  return string.format('%.17g', band + place_of[first])
end

-- The first rows of these lanes, their ids and their lanes.
local function heads_of(lanes, room)
  local rows, ids, lane_of = {}, {}, {}
  for _, lane in ipairs(lanes) do
    local free = is_gated(lane) and 0 or math.min(room or free_seats(lane), MOST - #rows)
    if free > 0 then
      local score = digits(BLOCKED + lane)
      for _, row in ipairs(redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', '0', digits(free))) do
        rows[#rows + 1], ids[#ids + 1], lane_of[#lane_of + 1] = row, id_of(row), lane
      end
    end
  end
  return rows, ids, lane_of
end

local heads_in
function heads_in(lanes, room)
  local rows, ids, lane_of = heads_of(lanes, room)
  if #rows == 0 then
    return
  end
  local texts, records = redis.call('HMGET', states, unpack(ids)), redis.call('HMGET', messages, unpack(ids))
  local taken, came, again = {}, {}, {}
  for n, row in ipairs(rows) do
    if is_blocked_row(row, ids[n], texts[n], records[n]) then
      taken[#taken + 1], taken[#taken + 2] = seat_in(lane_of[n]), ids[n]
      came[#came + 1], came[#came + 2] = next_score(row:byte(1)), row
    else
      again[#again + 1] = lane_of[n]
    end
  end
  if #came > 0 then
    redis.call('ZADD', seats, unpack(taken))
    redis.call('ZADD', ready, unpack(came))
    wake_one()
  end
  redis.call('ZREM', scheduled, unpack(rows)) -- last: by such a row the next script finds what was cut off
  if #again > 0 then
    heads_in(again, room and 1) -- each lane as often as it had rows that were dropped
  end
end
