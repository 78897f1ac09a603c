-- Reads the lane of a dependency: how many messages wait in it; and the first rows, those that failed as probes last.
local SPARE = 20 -- more rows that it reads, in place of those that are not let through (I9)

function Probes.count_parked(q, number)
  local score = Values.digits(Lanes.BLOCKED + number)
  return redis.call('ZCOUNT', q.scheduled, score, score .. Lanes.TRIED)
end

function Probes.parked_rows(q, number, count)
  local score = Values.digits(Lanes.BLOCKED + number)
  return redis.call('ZRANGEBYSCORE', q.scheduled, score, score .. Lanes.TRIED, 'LIMIT', 0, count + SPARE)
end

-- Whether the message may be ready now; if not, also the lane of its key.
local function has_seat(q, id, row, record)
  local lane = Record.read(record).lane
  if not lane or not Lanes.is_closed(q, lane) and Seats.enter(q, id, row, lane) then
    return true
  end
  return false, lane
end

-- Lets blocked messages of a dependency through its gate: each is ready with a pass, if it has or gets a seat of its key,
-- otherwise it waits for that in the lane of its key. Record and state are checked, as in Seats.admit. A pass ends in time
-- (gates.lua): `gates` has when. Returns how many it let through.
--   rows: of the lane; count: the most that it lets through
function Probes.give_passes(q, number, rows, count)
  local through, seen = 0, {}
  for _, row in ipairs(rows) do
    local id = Order.id_of(row)
    local record = not seen[row] and redis.call('HGET', q.messages, id)
    if through >= count then
      break
    elseif not seen[row] and not Seats.is_blocked_row(q, row, id, redis.call('HGET', q.states, id), record) then
      redis.call('ZREM', q.scheduled, row)
    elseif not seen[row] then
      local seated, lane = has_seat(q, id, row, record)
      if seated then
        local ends = Values.digits(q.now + q.breaker.longest)
        redis.call('ZADD', q.gates, ends, Lanes.PASS .. id) -- first: no pass is without an end
        redis.call('ZADD', q.seats, number, Lanes.PASS .. id)
        redis.call('ZADD', q.ready, Order.score_of(9 - row:byte(), q.now), row)
        redis.call('ZREM', q.scheduled, row)
        through = through + 1
      else
        redis.call('ZADD', q.scheduled, Lanes.BLOCKED + lane, row)
        redis.call('ZREM', q.seats, id) -- with ordered keys it kept one
      end
    end
    seen[row] = true
  end
  if through > 0 then
    Queue.wake(q)
  end
  return through
end

-- Lets messages of a dependency through to test it: the first of its lane, its newest, and any one, so that neither bad
-- heads nor bad newcomers can keep its breaker open. Returns how many.
--   count: three, or fewer: each time another one of them comes first; any: which one, from 0 to 1
function Probes.probe(q, number, lane, count, any)
  local first = Values.digits(Lanes.BLOCKED + number)
  local last = first .. Lanes.TRIED
  local head = redis.call('ZRANGEBYSCORE', q.scheduled, first, last, 'LIMIT', 0, 1)[1]
  if not head then
    return 0
  end
  local newest = redis.call('ZRANGE', q.scheduled, first, first, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local rank = redis.call('ZRANK', q.scheduled, head) + math.floor(any * Probes.count_parked(q, number))
  local three = {
    head, newest or redis.call('ZRANGE', q.scheduled, last, last, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1],
    redis.call('ZRANGE', q.scheduled, rank, rank)[1],
  }
  local turn = (lane.probes or 0) % 3
  local rows = { three[turn + 1], three[(turn + 1) % 3 + 1], three[(turn + 2) % 3 + 1] }
  lane.probes = (lane.probes or 0) + 1
  Lanes.write(q, number, lane)
  local through = Probes.give_passes(q, number, rows, count)
  -- if none: those were not there any more
  return through > 0 and through or Probes.give_passes(q, number, Probes.parked_rows(q, number, 1), 1)
end

-- The longest wait until the next probe of a dependency, milliseconds: `breaker.longest`, twice as long for each call that
-- was let through and did not end in that time, at most an hour. And how many such calls there are.
--   name: its lane, as text
local HOUR = 3600000

function Probes.hung_wait(q, name)
  local hung = redis.call('ZCOUNT', q.seats, name .. Lanes.TRIED, name .. Lanes.TRIED)
  return hung == 0 and q.breaker.longest or math.min(q.breaker.longest * 2 ^ hung, HOUR), hung
end

-- Lets one message of a dependency through that is down or paused, to test it now, for an operator. Returns 1, or 0 if none
-- waits.
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
