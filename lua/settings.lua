-- The settings of a queue, and what an operator does to a queue or a lane as a whole.
local MARKS_BEFORE = { '"breaking ', '"keyed ' } -- of entries by 0.1.0 with a breaker, or a rule for keys (policy/entry.py)
local AUDITED = 2592000000 -- milliseconds: 30 days, for which the audit of a deleted queue stays
local TRUST = 600000 -- milliseconds for which failures do not open a breaker that an operator has closed

-- How many seats a rule for keys gives to a lane (Lanes.rule).
local function seats_by(rule)
  return tonumber(rule:match('^limit (%d+)') or rule:match('^fair (%d+)')) or rule == 'off' and math.huge or 1
end

-- The fields that are set beside this one: the queue must be opened again, or claims look for seats that are too many.
--   known: what the settings have now
local function consequences(known, name, value)
  local cells = {}
  local is_off = name == 'per_key' and known.per_key == 'off'
  local is_of_lanes = name == 'per_key' or name == 'breaker' or name == 'probing'
  local was_off = is_off or is_of_lanes and (known.is_before or not known[name])
  local had_rate = (known.per_key or ''):find('rate ', 1, true)
  local gets_rate = name == 'per_key' and value:find('rate ', 1, true) and not had_rate
  if value ~= '' and value ~= 'off' and (was_off or gets_rate) and known.opening then
    cells.opening = known.opening .. 'k'
  end
  local is_fewer = known.limited or known.per_key and seats_by(value) < seats_by(known.per_key)
  if name == 'per_key' and value ~= '' and is_fewer then
    cells.narrowed = Lanes.WALKS
  end
  return cells
end

-- Whether a queue has a rule for keys or a breaker, or gets one.
local function lanes_count(known, gated, ARGV)
  for i = 4, #ARGV, 2 do
    if (ARGV[i] == 'per_key' or ARGV[i] == 'breaker') and ARGV[i + 1] ~= '' then
      return true
    end
  end
  return known.per_key or known.breaker or gated
end

-- Writes the settings of a queue. A client computes them from the map of policies, of this `version`, and from the settings
-- that the queue's own program declared. Fields that are not passed stay as they are. If keys lose their rule, `per_key` is
-- off until no message is blocked (Tend.tend). If keys get a rule or a rate, or the queue gets a breaker, or one whose
-- probes 0.1.0 does not know (`probing`), or if 0.1.0 has declared either since, it must be opened again, so that no
-- program continues that does not know these. If keys may have fewer seats than before, claims look for those that are too
-- many. Returns DONE; or nothing was written: OUTDATED: the settings have changed since the client read them; OLD_LANES.
-- drains
function Verbs.configure(q, ARGV)
  local version, version_before, declared_before = ARGV[1], ARGV[2], ARGV[3]
  -- items from ARGV[4]: name of a field, value (empty: not set)
  local found = redis.call(
    'HMGET', q.settings, 'version', 'declared', 'per_key', 'opening', 'breaker', 'limited', 'probing', 'gated'
  )
  if (found[1] or '') ~= version_before or (found[2] or '') ~= declared_before then
    return Reply.OUTDATED
  end
  local known = { per_key = found[3], opening = found[4], breaker = found[5], limited = found[6], probing = found[7] }
  known.is_before = declared_before:find(MARKS_BEFORE[1], 1, true) or declared_before:find(MARKS_BEFORE[2], 1, true)
  if not Lanes.are_numbered(found[8]) and lanes_count(known, found[8], ARGV) then
    if not Renumber.at_once(q) then
      return Reply.OLD_LANES
    end
    known.opening = redis.call('HGET', q.settings, 'opening')
  end
  local unset, cells = {}, { 'version', version }
  for i = 4, #ARGV, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'per_key' and value == '' and known.per_key then
      value = 'off'
    end
    for field, with in pairs(consequences(known, name, value)) do
      cells[#cells + 1], cells[#cells + 2] = field, with
    end
    if value == '' then
      unset[#unset + 1] = name
    else
      cells[#cells + 1], cells[#cells + 2] = name, value
    end
  end
  if #unset > 0 then
    redis.call('HDEL', q.settings, unpack(unset))
  end
  redis.call('HSET', q.settings, unpack(cells)) -- from here on they are in force
  return Reply.DONE
end

-- Writes an entry of the map of policies; empty: removes it. Returns the map's version and the entry that was there before:
-- if that is neither `seen` nor the entry itself, nothing was written.
function Verbs.set_policy(q, ARGV)
  local pattern, entry, seen = ARGV[1], ARGV[2], ARGV[3]
  -- seen: the entry from which this one was made; empty: there was none; any: it takes the place of whatever is there
  local replaced = redis.call('HGET', q.policies, pattern)
  local before = replaced or ''
  local version = tonumber((redis.call('HGET', q.policies, '#version') or ''):match('^%d+$') or nil) or 0
  if before ~= entry and (seen == 'any' or seen == before) then
    version = version + 1
    -- First: if the call is cut off, the version is one too high, which does no harm.
    redis.call('HSET', q.policies, '#version', Values.digits(version))
    if entry == '' then
      redis.call('HDEL', q.policies, pattern)
    else
      redis.call('HSET', q.policies, pattern, entry)
    end
  end
  return { version, replaced }
end

-- Pauses a queue, or resumes it. A paused queue hands out nothing; sending, expiry and settling continue. Returns DONE,
-- UNCHANGED or PAST.
-- drains
function Verbs.pause(q, ARGV)
  local paused, ends, after = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- paused: 1, or 0 to resume
  local by, user = ARGV[4], ARGV[5] -- ends, after: as in pause_lane; by: the operator, as JSON; user: the Redis user
  local known = redis.call('HMGET', q.settings, 'paused', 'paused_until')
  ends = after and Values.digits(q.now + after) or ends
  if paused == '1' and ends ~= '' and tonumber(ends) <= q.now then
    return Reply.PAST
  elseif (known[1] == '1') == (paused == '1') and (known[2] or '') == ends then
    return Reply.UNCHANGED
  elseif paused == '1' and ends ~= '' then
    redis.call('HSET', q.settings, 'paused_until', ends, 'paused', 1)
  elseif paused == '1' then
    redis.call('HSET', q.settings, 'paused', 1)
    redis.call('HDEL', q.settings, 'paused_until')
  else
    redis.call('HDEL', q.settings, 'paused', 'paused_until')
  end
  if paused ~= '1' or ends ~= '' then
    Queue.wake(q) -- a waiting client claims, or sets the alarm again
  end
  Audit.note(q, paused == '1' and 'paused' or 'resumed', by, user)
  return Reply.DONE
end

-- Restarts the totals: messages in the queue now count as sent, so that the sums still add up (I1). Returns how many.
-- drains
function Verbs.reset(q, ARGV)
  local act = ARGV[1] -- as in Audit.note_act
  for _, name in ipairs(redis.call('HKEYS', q.counters)) do
    if name ~= 'birth' and name ~= 'rate_until' and name ~= 'rate_spent' then
      redis.call('HDEL', q.counters, name)
    end
  end
  redis.call('HSET', q.counters, 'sent', redis.call('HLEN', q.messages))
  Audit.note_once(q, act)
  return redis.call('HLEN', q.messages)
end

-- Removes a queue: all its keys, with the progress of queries, except the audit, which is kept for another month, and
-- `gathers`, from which the ends of children are carried first. A list that a job has committed refuses that, since it may
-- be for several queues. Returns how many messages were removed; or NOT_EMPTY, how many are ready, scheduled, leased, dead
-- and expired, and how many lists are committed.
-- drains
-- keys: all
function Verbs.delete(q, ARGV, KEYS)
  local number, force = ARGV[1], ARGV[2] -- force: 1, or 0: only an empty queue
  local done = Register.done_before(q, number)
  if done then
    return done
  end
  local present, lists = redis.call('HLEN', q.messages), redis.call('ZCARD', q.committed)
  if lists > 0 or (present > 0 and force ~= '1') then
    return {
      Reply.NOT_EMPTY, redis.call('ZCARD', q.ready), redis.call('ZCARD', q.scheduled),
      math.max(0, Places.count_outside(q)), redis.call('ZCARD', q.dead), redis.call('ZCARD', q.expired), lists,
    }
  end
  redis.call('PEXPIRE', q.audit, AUDITED)
  local keys, carried = redis.call('ZRANGE', q.streams, 0, -1), Gathers.leave(q) and q.gathers
  for _, key in ipairs(KEYS) do
    keys[#keys + 1] = key ~= q.audit and key ~= carried and key or nil
  end
  -- One command, so that it takes effect at one moment. Redis frees the memory in another thread, whatever its size.
  redis.call('UNLINK', q.messages, unpack(keys))
  return Register.note_done(q, number, present)
end

-- Pauses a lane, all messages with one key or one dependency, or resumes it. To resume a dependency whose breaker is open
-- closes that too, if `close` says so: for ten minutes failures do not open it. Returns DONE, UNCHANGED, DOWN or PAST.
-- drains
function Verbs.pause_lane(q, ARGV)
  local number, of, name = tonumber(ARGV[1]), ARGV[2], ARGV[3] -- of: key or dependency; name: its text
  local paused, ends, after = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]) -- paused: 1, or 0 to resume
  local close, by, user = ARGV[7] == '1', ARGV[8], ARGV[9] -- ends, after: of the pause, a time or milliseconds from now
  local lane, did, waiting = Lanes.read(q, number), 'resumed', Lanes.count_blocked(q, number)
  local is_paused = lane and Lanes.is_paused(q, lane)
  local is_down = lane and lane.open and q.set.breaker
  ends = after and q.now + after or ends
  if paused == '1' then
    if ends and ends <= q.now then
      return Reply.PAST
    elseif is_paused and lane.ends == ends then
      return Reply.UNCHANGED
    end
    lane, did = lane or { of = of, name = name }, 'paused'
    lane.paused, lane.ends, lane.by = is_paused and lane.paused or q.now, ends, by
    Lanes.write(q, number, lane)
  elseif is_down and not close then
    if not is_paused then
      return Reply.DOWN
    end
    lane.paused, lane.ends, lane.by = nil, nil, nil -- its probes go on
    Lanes.write(q, number, lane)
  elseif lane and (lane.paused or lane.open) then
    if is_down then
      lane.trusts, did = q.now + TRUST, 'closed'
    end
    Gates.reopen(q, number, lane)
  else
    return Reply.UNCHANGED
  end
  Queue.wake(q) -- a waiting client sets the alarm again
  Audit.note(q, did, by, user, 'number', waiting, 'chosen', of .. ' ' .. name)
  return Reply.DONE
end

-- Gives a key a limit of its own in place of the limit in the rule, or removes it. Returns DONE, UNCHANGED or UNLIMITED.
function Verbs.limit_lane(q, ARGV)
  local number, name, limit = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]) -- name: the key; limit: empty: the rule's
  local by, user = ARGV[4], ARGV[5]
  local lane = Lanes.read(q, number)
  if limit and not q.rule.of_each then
    return Reply.UNLIMITED
  elseif limit == (lane and lane.limit or nil) then
    return Reply.UNCHANGED
  end
  lane = lane or { of = 'key', name = name }
  lane.limit = limit
  redis.call('HSET', q.settings, 'narrowed', Lanes.WALKS) -- first: it may be lower than before (Narrow.narrow)
  Lanes.write(q, number, lane)
  if q.rule.limit < math.huge then
    Seats.admit(q, { Values.digits(number) })
  end
  Audit.note(q, 'limited', by, user, 'chosen', 'key ' .. name .. (limit and ' to ' .. limit or ' as others'))
  return Reply.DONE
end
