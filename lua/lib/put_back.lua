-- Puts a message back that is in no index and no claim (lib/count_orphans), where its record and its state say that it
-- belongs. Returns whether it was in none.
-- needs: now, is_later, head_in, parse_state, orphaned, put; keys: states, leases, claims
-- gives: put_back
local LEASE = 30000 -- milliseconds, as usual, for a holder whose lease is lost; it may be alive, and extend it

-- The consumer and the index of a claim whose list is lost are unknown. As one of a batch, its lapse is not charged.
local function hold(id, token)
  local list, is_leased = redis.call('HGET', claims, token), redis.call('ZSCORE', leases, token)
  local is_listed = list and (list .. '\n'):find('\n' .. id .. '\n', 1, true)
  if not is_listed then
    redis.call('HSET', claims, token, (list or '\tbatch') .. '\n' .. id)
    redis.call('HINCRBY', claims, token .. ':held', 1)
  end
  if not is_leased then
    redis.call('ZADD', leases, now + LEASE, token)
  end
  return not (is_listed and is_leased)
end

local function put_back(id, record)
  local text = redis.call('HGET', states, id)
  if is_later(record, text) then -- only a later version can tell where it belongs
    return false
  end
  local head = head_in(record, text)
  local state = parse_state(text, head.birth)
  if state.mark == '+' then
    return hold(id, state.token)
  elseif not orphaned(id, state, head) then
    return false
  end
  put(id, state, head, state.due > now, state.more:match(' rest=(%d+)'))
  return true
end
