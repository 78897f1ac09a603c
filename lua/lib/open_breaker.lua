-- Opens the breaker of a dependency: claims park its messages from now. The charges of the newest failures are refunded
-- first: if cut off here, the next failure opens it. Passes end, so that messages that were let through but are not leased
-- are also parked, and the success of a leased one proves nothing.
--   since: when the signs began; id: a message that needs it; error: the newest, cells of a cause
-- needs: now, breaker, refund, TRIED, end_passes, read_lane, write_lane, text_in, note_audit
-- needs: keys: messages, seats, failures
-- gives: open_breaker
local READ, REFUNDED, NAMED = 1000, 200, 100 -- rows, of all dependencies; messages; letters
local MOST = 1100 -- passes; lib/drain lets no more through

-- The newest messages that failed, by their rows; and the rows.
local function newest(name, since)
  local rows, ids = {}, {}
  for _, row in ipairs(redis.call('ZRANGE', failures, '+inf', since, 'BYSCORE', 'REV', 'LIMIT', 0, READ)) do
    if #ids < REFUNDED and row:sub(1, #name + 1) == name .. ' ' then
      rows[#rows + 1], ids[#ids + 1] = row, row:sub(#name + 2)
    end
  end
  return ids, rows
end

local function open_breaker(number, since, id, error)
  local ids, rows = newest(string.format('%.0f', number), since)
  local dead, died = {}, 0
  for _, failed in ipairs(ids) do
    if refund(failed, since) then
      died = died + 1
      dead[#dead + 1] = died <= NAMED and failed or nil
    end
  end
  local name = text_in(redis.call('HGET', messages, id) or '', 'dependency')
  local lane = read_lane(number) or { of = 'dependency', name = name }
  lane.open, lane.probes, lane.wait, lane.probe = now, 0, 2 * breaker.probe, now + breaker.probe
  lane.drains, lane.drain, lane.idle, lane.hung = nil, nil, nil, nil
  lane.dead, lane.died, lane.error = died > 0 and dead or nil, died > 0 and died or nil, error
  local passes = redis.call('ZRANGEBYSCORE', seats, number, number .. TRIED, 'LIMIT', 0, MOST)
  for n, member in ipairs(passes) do
    passes[n] = member:sub(2)
  end
  if #passes > 0 then
    end_passes(passes)
  end
  write_lane(number, lane)
  if #rows > 0 then
    redis.call('ZREM', failures, unpack(rows))
  end
  note_audit('opened', '"breaker"', '', 'chosen', 'dependency ' .. lane.name)
  return lane.name
end
