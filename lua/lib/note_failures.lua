-- Notes which messages have failed and need a dependency, so that their charges can be refunded if it is down: a row of its
-- lane and the id; score = when. The key expires an hour after the last failure; for each row that is added, two that are
-- older go.
-- needs: now, RUN_ENDS; keys: failures
-- gives: note_failures
local function note_failures(name, ids)
  local cells = {}
  for n, id in ipairs(ids) do
    cells[2 * n - 1], cells[2 * n] = now, name .. ' ' .. id
  end
  redis.call('ZADD', failures, unpack(cells))
  local old = redis.call('ZRANGEBYSCORE', failures, '-inf', now - RUN_ENDS, 'LIMIT', 0, 2 * #ids)
  if #old > 0 then
    redis.call('ZREM', failures, unpack(old))
  end
  redis.call('PEXPIRE', failures, RUN_ENDS)
end
