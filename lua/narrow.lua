-- The seats of the messages that a claim may take: it takes away those that are too many, and gives those that are missing.
--
-- A claim looks at seats, too: one ZMSCORE. So neither a change of the rule nor a row that was left behind lets a claim
-- deliver more than the rule allows, and a rule takes effect for a full queue without a walk over it. A rule, or a limit of
-- a key, that allows fewer seats than before sets `narrowed`: only then claims count the seats of the lanes that they read,
-- until `tend` has read all seats, and no leased message holds one too many.
local PAUSE = 1000 -- milliseconds between two calls of Tend.tend

-- The messages that hold seats with these scores and are still ready: for each its id, its row, and the rank of that in
-- `ready`.
local function ready_holders(q, first, last)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', q.seats, first, last, 'LIMIT', 0, Bounds.ROWS)) do
    local state, head = State.read(q, id)
    local row = state and Order.member_of(id, head, state.due)
    local rank = row and redis.call('ZRANK', q.ready, row)
    if rank then
      found[#found + 1] = { id = id, row = row, rank = rank }
    end
  end
  return found
end

-- A ready message loses its seat, and its pass, if its dependency has a gate: it waits in the lane of its key.
local function lose(q, lane, id, row)
  redis.call('ZREM', q.seats, id, Lanes.PASS .. id) -- first: a cut-off call may leave a free seat, never one too many
  redis.call('ZREM', q.gates, Lanes.PASS .. id)
  Seats.block(q, lane, row)
end

-- Takes away the seats of a lane that are too many. Returns how many messages lost theirs, and how many are still too many.
local function narrow_lane(q, lane)
  local name = Values.digits(lane)
  local surplus = -Seats.free_seats(q, name)
  if surplus <= 0 then
    return 0, 0
  end
  local holders = ready_holders(q, name, name .. Lanes.BY_RATE)
  table.sort(holders, function(one, other) return one.rank > other.rank end)
  local losers = math.min(surplus, #holders)
  for n = 1, losers do
    lose(q, lane, holders[n].id, holders[n].row)
  end
  return losers, surplus - losers
end

-- Takes away the seats that are too many in the lanes of these ids. Ready messages lose theirs and are blocked, the last
-- ones first; a leased message keeps its own until it is done. Returns `held` as it is then, and whether leased messages
-- hold too many.
--   held: for each id the score of its seat, or false
function Narrow.narrow(q, held, ids)
  local seen, blocked, left = {}, 0, 0
  for _, score in ipairs(held) do
    local lane = score and score - score % 1 -- Lanes.BY_RATE
    if lane and lane >= 0 and not seen[lane] then -- not Lanes.IN_FLIGHT
      seen[lane] = true
      local losers, too_many = narrow_lane(q, lane)
      blocked, left = blocked + losers, left + too_many
    end
  end
  return blocked > 0 and redis.call('ZMSCORE', q.seats, unpack(ids)) or held, left > 0
end

-- Whether a ready message takes over a seat: of the holders that are still ready and behind it, the last one loses its
-- seat. It passes no blocked message; if it takes over none, its row may be in both indexes.
--   displaced: gets the ids of those that lose their seats
local function takes_over(q, id, row, lane, displaced)
  local name = Values.digits(lane)
  if Seats.free_seats(q, name) < 0 then -- a limit is lower than before: the lane gives no seat
    return false
  end
  local score = Values.digits(Lanes.BLOCKED + lane)
  redis.call('ZADD', q.scheduled, score, row) -- so that Redis compares it with those that are blocked
  if redis.call('ZRANGEBYSCORE', q.scheduled, score, score, 'LIMIT', 0, 1)[1] ~= row then
    return false
  end
  local seat = Seats.seat_in(q, name)
  local furthest, loser = redis.call('ZRANK', q.ready, row) or math.huge, nil
  for _, holder in ipairs(ready_holders(q, seat, seat)) do
    if holder.rank > furthest then
      furthest, loser = holder.rank, holder
    end
  end
  if not loser then
    return false
  end
  lose(q, lane, loser.id, loser.row)
  redis.call('ZADD', q.seats, seat, id)
  redis.call('ZREM', q.scheduled, row)
  displaced[loser.id] = true
  return true
end

-- Blocks a message that has no seat and gets none; whether it did.
local function must_wait(q, row, id, text, displaced)
  local lane, is_own = Lanes.waiting_lane(q, id, row, text)
  if not lane or is_own and (Seats.enter(q, id, row, lane) or takes_over(q, id, row, lane, displaced)) then
    return false
  end
  if q.set.gated then
    Seats.end_passes(q, { id }) -- it got one before keys had a rule
  end
  Seats.block(q, lane, row) -- Seats.admit drops a row that is not its message's own
  if q.rule.interval then
    redis.call('ZREM', q.seats, id) -- it was ready before keys had a rate
  end
  return true
end

-- Of the rows that a claim may take, with their ids and states, those of messages that have no key, or a seat. One with a
-- key but no seat gets one, takes over that of a later message, or is blocked: keys had no rule when it became ready. If
-- any was blocked, it reads more rows, up to a hundred, so that few claims are enough.
--   held: for each its lane, if it has a seat
function Narrow.with_seats(q, held, rows, ids, texts)
  local blocked, displaced, room = {}, {}, Bounds.LANES
  for n, row in ipairs(rows) do
    blocked[n] = not held[n] and must_wait(q, row, ids[n], texts[n], displaced)
    room = room - (blocked[n] and 1 or 0)
  end
  local kept, names, lines = {}, {}, {}
  for n, id in ipairs(ids) do -- an id has a second row, nearer the front, if a call was cut off
    if not blocked[n] and not displaced[id] then
      kept[#kept + 1], names[#names + 1], lines[#lines + 1] = rows[n], id, texts[n]
    end
  end
  local reads_on = room > 0 and room < Bounds.LANES
  for _, row in ipairs(reads_on and redis.call('ZRANGE', q.ready, #kept, #kept + room - 1) or {}) do
    local id = Order.id_of(row)
    if row:byte() < 16 and not redis.call('ZSCORE', q.seats, id) then -- a key has the long form (Order)
      must_wait(q, row, id, redis.call('HGET', q.states, id), displaced)
    end
  end
  return kept, names, lines
end

-- Admits `count` blocked messages, from all lanes alike.
local function fill(q, count)
  local lanes, score = {}, Values.digits(Lanes.BLOCKED)
  for _ = 1, Bounds.LANES do
    if not score or #lanes == count then
      break
    end
    score = redis.call('ZRANGEBYSCORE', q.scheduled, score, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local lane = score and math.floor(tonumber(score)) - Lanes.BLOCKED -- Lanes.TRIED
    lanes[#lanes + 1] = lane and not Lanes.is_gated(q, lane) and Values.digits(lane) or nil
    score = score and '(' .. score
  end
  if #lanes == 0 then
    return
  end
  local share, first, room = math.floor(count / #lanes), math.floor(tonumber(q.seed) * #lanes), {}
  for n = 1, #lanes do -- by the seed, since not all can have the rest
    room[lanes[(first + n) % #lanes + 1]] = n <= count - share * #lanes and share + 1 or share
  end
  Seats.admit(q, lanes, room)
end

-- Before a claim takes messages of a queue with a rule for keys, or with closed lanes: handles gates and slots that are
-- due, and repairs lanes, once a second. If lanes take turns and fewer messages are ready than it may take, it admits the
-- rest from all lanes alike, so that even one lane fills a batch.
function Narrow.prepare_lanes(q, c)
  local per_key, paced, capacity = c.per_key, c.paced, c.capacity
  if c.gated and capacity > 0 then
    Gates.handle_due(q)
  end
  if paced and capacity > 0 then
    Rates.admit_due(q, capacity)
  end
  local at = tonumber((redis.call('GET', q.tended) or ''):match('^%d+') or 0)
  if at > q.now or q.now >= at + PAUSE then -- or the clock stepped back
    Tend.tend(q)
  end
  local lacking = per_key and not paced and per_key:find('^fair') and capacity - redis.call('ZCARD', q.ready) or 0
  if lacking > 0 then
    fill(q, lacking)
  end
end
