-- Sweeps a message of a lapsed claim: if the claim still held it, it is redelivered by the policy, charged (I15). In a
-- worker's claim a message's first lapse is not charged, since another message may have killed the worker, and in a batch
-- none is, since its driver was down: it is ready immediately, at its old position. A batch's lapse does not make it a
-- suspect, either (Choose.rows). Returns how many messages the claim no longer holds (1 or 0); nil if the message is left
-- alone, since only a later version can judge it.
local function sweep_message(q, id, token, consumer, kind)
  local text = redis.call('HGET', q.states, id)
  local held = State.holds(token, text)
  local fewer = held and 1 or 0
  if not held and Calls.finish(q, id, token) then
    return 1
  end
  local head, later = (held and Record.held_head or Record.head_of)(q, id, text)
  if later then
    return not held and 0 or nil
  elseif not head then
    return fewer
  end
  local state = State.parse(text, head.birth)
  if not held and not Places.orphaned(q, id, state, head) then
    return 0
  elseif not Judge.can_judge(q) then
    return nil
  end
  state.token = '' -- its holder did not settle it, so a repeated call must not be told that it did
  local failure = { charge = true, consumer = consumer, error = q.lapse_error, of_batch = kind == 'batch' }
  if failure.of_batch or kind == 'worker' and state.lapsed == 0 then
    failure.charge, failure.delay, failure.forgiven = false, 0, true
  end
  if head.needs and q.set.gated and Lanes.is_closed(q, head.needs) then
    Breaker.spare(q, id, head.needs, failure)
  end
  if failure.forgiven and state.part == 'live' and head.lane and q.set.per_key then
    Slots.token_back(q, head.lane, function()
      Judge.judge(q, id, state, head, 'lapsed', failure)
    end)
  else
    Judge.judge(q, id, state, head, 'lapsed', failure)
  end
  return fewer
end

-- Sweeps lapsed leases, message by message (`sweep_message`). A claim larger than the limit is swept in parts: a swept
-- message leaves its line of the list empty (Leases.ids_of), and the lease stays until the last part. Messages that only a
-- later version can judge stay on the list. They count up to the limit, too: the claim then records the line where the next
-- sweep continues, and once the end of the list is reached, its lease is extended. Returns how many messages were swept and
-- how many were left alone, at most `most` and `most_left`.
local function sweep_claim(q, token, most, most_left)
  local maker, list = (redis.call('HGET', q.claims, token) or ''):match('^([^\n]*)\n?(.*)$')
  local consumer, kind, noted, more = maker:match('^([^\t]*)\t?([^\t]*)\t?(%d*)(.*)$')
  local from, line, stopped = tonumber(noted) or 0, -1, false
  local looked, left, swept, gone = 0, 0, 0, {}
  for id in (list .. '\n'):gmatch('([^\n]*)\n') do
    line = line + 1
    if id ~= '' and line >= from then
      stopped = looked == most or left == most_left
      if stopped then
        break
      end
      local count = sweep_message(q, id, token, consumer, kind)
      if count then
        looked, swept, gone[id] = looked + 1, swept + count, ''
      else
        left = left + 1
      end
    end
  end
  local kept = from > 0 or left > 0
  if not stopped and not kept then
    redis.call('HDEL', q.claims, token, token .. ':held')
    redis.call('ZREM', q.leases, token)
    return looked, left
  end
  local on = stopped and kept and line or 0
  if on ~= from then
    maker = table.concat({ consumer, kind, on .. more }, '\t')
  end
  local emptied = list:gsub('[^\n]+', gone)
  redis.call('HSET', q.claims, token, maker .. '\n' .. emptied)
  if not stopped then
    redis.call('ZADD', q.leases, q.now + Record.AGAIN, token)
  end
  if swept > 0 then -- -0 becomes "-0", which Redis does not take as a number
    Leases.take_off(q, { [token] = swept })
  end
  return looked, left
end

function Sweep.lapsed(q, limit)
  local looked, left = 0, 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', q.leases, '-inf', q.now, 'LIMIT', 0, limit)) do
    if looked == limit or left == limit then
      break
    end
    local more, more_left = sweep_claim(q, token, limit - looked, limit - left)
    looked, left = looked + more, left + more_left
  end
  return looked
end

-- Takes messages back whose leases have lapsed, and judges them by the policy. Returns how many messages it checked; some
-- of them may have been settled before.
-- drains
function Verbs.sweep(q, ARGV)
  local limit, seed, default_policy, lapse_error = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
  q.seed, q.default_policy, q.lapse_error = seed, default_policy, lapse_error
  local looked = Sweep.lapsed(q, limit)
  if looked > 0 then
    Queue.wake(q)
  end
  return looked
end
