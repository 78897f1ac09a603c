-- Version 0.1.0 had another hash for the numbers of lanes (Record.lane_of). What it left in a queue has its numbers: seats,
-- the rows of blocked messages, special states, gates and slots; in a record only what its sender computed, which does not
-- count. Until all of that is renumbered, no call of this version gives a seat or decides by a lane (Lanes.are_special).
-- It begins and ends with fences, so that nothing gets a number of 0.1.0 afterwards.

-- The keys in which 0.1.0 has seats and special states, `former_seats` and `former_lanes`, hold this text as long as the
-- queue exists, and the setting `gated` makes 0.1.0 read the latter. So each of its scripts that decides by a lane fails.
-- Clients of 0.1.0 that declare no settings are refused with a sentence (rq_dlq/policy/entry.py).
local FENCE = 'The lanes of this queue are numbered by SHA-1. '
  .. 'Remove this key only with the queue: it keeps rq_dlq 0.1.0 out.'

-- Whether the reply to the read of a key says that it holds a text: the fence is there.
local function is_fence(reply)
  local wrong = type(reply) == 'table' and reply.err
  if wrong and not wrong:find('WRONGTYPE', 1, true) then
    error(wrong, 0)
  end
  return wrong and true or false
end

-- Puts up a fence again that was removed.
function Renumber.mend(q)
  for _, key in ipairs({ q.former_seats, q.former_lanes }) do
    if redis.call('EXISTS', key) == 0 then
      redis.call('SET', key, FENCE)
    end
  end
end

-- Renumbers the special states of lanes and their gates, then replaces them by the fence. Forgets the signs of breakers.
--   goes_on: seats or rows are left, so the setting `gated` keeps all calls out until the last of them
local function take_states(q, goes_on)
  local lanes = redis.pcall('HGETALL', q.former_lanes)
  if is_fence(lanes) then
    return
  end
  for n = 1, #lanes, 2 do
    local lane, gate = Values.json(lanes[n + 1]), redis.call('ZSCORE', q.gates, lanes[n])
    if lane.of and lane.name and lane.name ~= '' then
      local number = Values.digits(Record.lane_of(lane.of, lane.name))
      redis.call('HSET', q.special, number, lanes[n + 1])
      if gate then
        redis.call('ZADD', q.gates, gate, number)
      end
    end
    redis.call('ZREM', q.gates, lanes[n])
  end
  redis.call('UNLINK', q.strikes, q.runs, q.failures)
  if goes_on and not redis.call('HGET', q.settings, 'gated') then
    redis.call('HSET', q.settings, 'gated', 1)
  end
  redis.call('SET', q.former_lanes, FENCE)
end

-- From here on lanes count by this version's numbers. Clients must open the queue again. A lane may have a seat too many.
local function finish(q)
  local set = redis.call('HMGET', q.settings, 'opening', 'per_key')
  if set[1] then
    redis.call('HSET', q.settings, 'opening', set[1] .. 'k')
  end
  if set[2] then
    redis.call('HSET', q.settings, 'narrowed', Lanes.WALKS)
  end
  redis.call('HSET', q.settings, 'gated', redis.call('EXISTS', q.special) == 1 and Lanes.SPECIAL or Lanes.PLAIN)
  Queue.wake(q)
end

-- The number of a lane of a message by this version; nil: it is not one that its sender computed, or nothing changes.
local function new_number(q, id, number)
  local record = redis.call('HGET', q.messages, id)
  local first = record and Record.fields_at(record)
  if not first then
    return nil
  end
  local lane, needs, said_lane, said_needs = Record.lanes_in(record, first)
  local changed = number == said_lane and lane or number == said_needs and needs or nil
  return changed ~= number and changed or nil
end

-- Writes a row with its new score; with the first of a lane, the slot of the lane.
--   base: what precedes the lane in a score
local function move(q, index, member, score, base, lane)
  local before = math.floor(score) - base
  redis.call('ZADD', index, Values.digits(base + lane) .. (score % 1 > 0 and Lanes.TRIED or ''), member)
  local slot = redis.call('ZSCORE', q.slots, Values.digits(before))
  if slot and lane ~= before then
    redis.call('ZADD', q.slots, slot, Values.digits(lane))
    redis.call('ZREM', q.slots, Values.digits(before))
  end
end

-- Takes over a seat or a pass of 0.1.0. Returns whether that must wait for the end of a call, or of its lease, of which
-- nothing tells the key. No lease is swept until then.
local function take_seat(q, member, score)
  local number, token = math.floor(score), member:match('^\2(%S+) ')
  local id = member:sub(1, 1) == Lanes.PASS and member:sub(2) or member
  if token then -- of a call whose message was cancelled: the first blocked message of the lane tells the key
    local row = Lanes.blocked_rows(q, number, 1)[1]
    id = row and Order.id_of(row)
  end
  local lane = id and new_number(q, id, number)
  local ends = token and not lane and redis.call('ZSCORE', q.leases, token)
  if ends and tonumber(ends) > q.now then
    return true
  end
  move(q, q.seats, member, score, 0, lane or number) -- Tend.tend removes one that no message should hold
  redis.call('ZREM', q.former_seats, member)
  return false
end

-- Takes over some seats of 0.1.0; after the last one the fence replaces them. Returns whether any are left, and
-- whether that must wait.
local function take_seats(q, limit)
  local rows = redis.pcall('ZRANGE', q.former_seats, 0, limit - 1, 'WITHSCORES')
  if is_fence(rows) then
    return false, false
  end
  for n = 1, #rows, 2 do
    if take_seat(q, rows[n], tonumber(rows[n + 1])) then
      return true, true
    end
  end
  if redis.call('EXISTS', q.former_seats) == 0 then
    redis.call('SET', q.former_seats, FENCE)
    return false, false
  end
  return true, false
end

-- Renumbers some blocked rows: those after (score, member). Returns these of the last; nil: it was the last of all.
local function take_rows(q, score, member, limit)
  local found, next_score, next_member = Order.rows_after(q.scheduled, score, member, limit)
  for _, row in ipairs(found) do -- one that moves on is read again, and stays
    local at = tonumber(redis.call('ZSCORE', q.scheduled, row))
    local lane = new_number(q, Order.id_of(row), math.floor(at) - Lanes.BLOCKED)
    if lane then
      move(q, q.scheduled, row, at, Lanes.BLOCKED, lane)
    end
  end
  return next_score ~= '' and next_score or nil, next_member
end

-- Puts up the fences. Returns whether the lanes are renumbered: no message holds a seat, or is blocked.
function Renumber.at_once(q)
  local seats = redis.pcall('ZCARD', q.former_seats)
  local are_left = not is_fence(seats) and seats > 0 or redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf') > 0
  take_states(q, are_left)
  if are_left then
    return false
  end
  Renumber.mend(q)
  finish(q)
  return true
end

-- Renumbers the lanes of a queue, some seats or rows per call; a call can be repeated, and others may do the same. Returns
-- what the next call passes as `after`; DONE; or CALLS_RUN while calls run whose messages were cancelled, and nothing tells
-- their keys.
--   after: empty while seats are left; then the score and the member of the last blocked row that was read
-- drains
function Verbs.renumber(q, ARGV)
  local after, limit = ARGV[1], tonumber(ARGV[2])
  if Lanes.are_numbered(redis.call('HGET', q.settings, 'gated')) then
    return Reply.DONE
  end
  take_states(q, true)
  local are_left, must_wait = take_seats(q, limit)
  if must_wait then
    return Reply.CALLS_RUN
  elseif are_left then
    return ' '
  end
  local score, member = after:match('^(%S+) (.*)$')
  score, member = take_rows(q, score or Values.digits(Lanes.BLOCKED - 1), member or '', limit)
  if score then
    return score .. ' ' .. member
  end
  finish(q)
  return Reply.DONE
end
