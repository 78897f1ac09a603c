-- Sweeps lapsed leases, message by message (lib/sweep_message). A claim larger than the limit is swept in parts: a swept
-- message leaves its line of the list empty (lib/claimed), and the lease stays until the last part. Messages that only a
-- later version can judge stay on the list. They count up to the limit, too: the claim then records the line where the
-- next sweep continues, and once the end of the list is reached, its lease is extended.
-- needs: AGAIN, sweep_message, now, let_go; keys: leases, claims
-- gives: sweep
-- Returns how many messages were swept and how many were left alone, at most `most` and `most_left`.
local function sweep_claim(token, most, most_left)
  local maker, list = (redis.call('HGET', claims, token) or ''):match('^([^\n]*)\n?(.*)$')
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
      local count = sweep_message(id, token, consumer, kind)
      if count then
        looked, swept, gone[id] = looked + 1, swept + count, ''
      else
        left = left + 1
      end
    end
  end
  local kept = from > 0 or left > 0
  if not stopped and not kept then
    redis.call('HDEL', claims, token, token .. ':held')
    redis.call('ZREM', leases, token)
    return looked, left
  end
  local on = stopped and kept and line or 0
  if on ~= from then
    maker = table.concat({ consumer, kind, on .. more }, '\t')
  end
  local emptied = list:gsub('[^\n]+', gone)
  redis.call('HSET', claims, token, maker .. '\n' .. emptied)
  if not stopped then
    redis.call('ZADD', leases, now + AGAIN, token)
  end
  if swept > 0 then -- -0 becomes "-0", which Redis does not take as a number
    let_go({ [token] = swept })
  end
  return looked, left
end

local function sweep(limit)
  local looked, left = 0, 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
    if looked == limit or left == limit then
      break
    end
    local more, more_left = sweep_claim(token, limit - looked, limit - left)
    looked, left = looked + more, left + more_left
  end
  return looked
end
