-- Probes: some messages of a dependency that is down get a pass, to test it.
--
-- Probes rotate over the first twenty positions: if the first were tried each time, a bad message at the front would
-- keep the breaker open forever. A pass is a member of `seats`, like a seat: a probe that is lost lapses, and gives its
-- pass back.
local SPARE = 20 -- more rows that are read, in place of those that get no pass (I9)
local HOUR = 3600000 -- milliseconds

-- Whether a message has, or gets, a seat of its key, or needs none; if not, also the lane of its key.
local function has_seat(q, id, row, record)
  local lane = Record.read(record).lane
  if lane then
    Seats.due_first(q) -- a message that is due may be in front of it
  end
  if not lane or not Lanes.is_closed(q, lane) and Seats.enter(q, id, row, lane) then
    return true
  end
  return false, lane
end

-- Makes messages ready with a pass, and removes their rows from the lane. No pass is ever without an end.
--   rows, ids: of those that get one; left: the other rows to remove
local function write_passes(q, number, rows, ids, left)
  local ends, passes, came = {}, {}, {}
  local at, name = Values.digits(q.now + q.breaker.longest), Values.digits(number)
  for n, row in ipairs(rows) do
    local pass = Lanes.PASS .. ids[n]
    ends[2 * n - 1], ends[2 * n] = at, pass
    passes[2 * n - 1], passes[2 * n] = name, pass
    came[2 * n - 1], came[2 * n] = Order.score_of(9 - row:byte(), q.now), row
    left[#left + 1] = row
  end
  if #rows > 0 then
    redis.call('ZADD', q.gates, unpack(ends))
    redis.call('ZADD', q.seats, unpack(passes))
    redis.call('ZADD', q.ready, unpack(came))
    Queue.wake(q)
  end
  if #left > 0 then
    redis.call('ZREM', q.scheduled, unpack(left))
  end
end

-- Gives passes to messages that wait for a dependency: each is ready with its pass, if it has or gets a seat of its key,
-- otherwise it waits for that in the lane of its key. Returns how many got one.
--   rows: of the lane; nil: its first ones; count: the most that get one
function Probes.give_passes(q, number, count, rows)
  rows = rows or Lanes.blocked_rows(q, number, count + SPARE)
  local ids, seen, through, names, left = {}, {}, {}, {}, {}
  for n, row in ipairs(rows) do
    ids[n] = Order.id_of(row)
  end
  local texts = #ids > 0 and redis.call('HMGET', q.states, unpack(ids))
  for n, row in ipairs(rows) do
    local record = not seen[row] and redis.call('HGET', q.messages, ids[n])
    if #through >= count then
      break
    elseif not seen[row] and not Seats.is_blocked_row(q, row, ids[n], texts[n], record) then
      left[#left + 1] = row
    elseif not seen[row] then
      local seated, lane = has_seat(q, ids[n], row, record)
      if seated then
        through[#through + 1], names[#names + 1] = row, ids[n]
      else
        redis.call('ZADD', q.scheduled, Lanes.BLOCKED + lane, row)
        redis.call('ZREM', q.seats, ids[n]) -- with ordered keys it kept one
      end
    end
    seen[row] = true
  end
  write_passes(q, number, through, names, left)
  return #through
end

-- Gives passes to messages of a dependency, to test it: the first of its lane, its newest, and any one, so that bad ones
-- cannot keep its breaker open, wherever they are. Returns how many.
--   count: three, or fewer: each time another one of them comes first; any: which one, from 0 to 1
function Probes.probe(q, number, lane, count, any)
  local first = Values.digits(Lanes.BLOCKED + number)
  local last = first .. Lanes.TRIED
  local front = Lanes.blocked_rows(q, number, 1)[1]
  if not front then
    return 0
  end
  local newest = redis.call('ZRANGE', q.scheduled, first, first, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local rank = redis.call('ZRANK', q.scheduled, front) + math.floor(any * Lanes.count_blocked(q, number))
  local three = {
    front, newest or redis.call('ZRANGE', q.scheduled, last, last, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1],
    redis.call('ZRANGE', q.scheduled, rank, rank)[1],
  }
  local turn = (lane.probes or 0) % 3
  local rows = { three[turn + 1], three[(turn + 1) % 3 + 1], three[(turn + 2) % 3 + 1] }
  lane.probes = (lane.probes or 0) + 1
  Lanes.write(q, number, lane)
  local through = Probes.give_passes(q, number, count, rows)
  return through > 0 and through or Probes.give_passes(q, number, 1) -- if none: those were not there any more
end

-- The longest wait until the next probe of a dependency, milliseconds: `breaker.longest`, twice as long for each call with
-- a pass that did not end in that time, at most an hour. And how many such calls there are.
--   name: its lane, as text
function Probes.hung_wait(q, name)
  local hung = redis.call('ZCOUNT', q.seats, name .. Lanes.TRIED, name .. Lanes.TRIED)
  return hung == 0 and q.breaker.longest or math.min(q.breaker.longest * 2 ^ hung, HOUR), hung
end

-- Gives one message a pass of a dependency that is down or paused, to test it now, for an operator. Returns 1, or 0 if none
-- waits.
-- drains
function Verbs.probe_lane(q, ARGV)
  local number, lane, seed, act = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
  -- lane: of the dependency; act: as in Audit.note_act
  local done = Register.done_before(q, number)
  if done then
    return done
  end
  local state = Lanes.read(q, lane)
  local through = state and Probes.probe(q, lane, state, 1, seed) or 0
  Audit.note_act(q, act, through)
  return Register.note_done(q, number, through)
end
