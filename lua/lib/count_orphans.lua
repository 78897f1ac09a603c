-- How many messages are in no index and in no claim that has a lease. Each message is in one of them, unless another
-- program deleted or restored a key. With more than MOST claims the number is unknown: 0.
-- needs: keys: messages, ready, scheduled, dead, expired, leases, claims
-- gives: count_orphans
local MOST, PAGE = 5000, 1000 -- claims that one call reads (I9), and a page of them

local function count_orphans()
  local count = redis.call('HLEN', messages)
  for _, index in ipairs({ ready, scheduled, dead, expired }) do
    count = count - redis.call('ZCARD', index)
  end
  if count <= 0 or redis.call('ZCARD', leases) > MOST then
    return 0
  end
  for first = 0, MOST - 1, PAGE do
    local tokens = redis.call('ZRANGE', leases, first, first + PAGE - 1)
    for n, token in ipairs(tokens) do
      tokens[n] = token .. ':held'
    end
    for _, held in ipairs(#tokens > 0 and redis.call('HMGET', claims, unpack(tokens)) or {}) do
      count = count - (tonumber(held or 0) or 0)
    end
    if #tokens < PAGE then
      break
    end
  end
  return math.max(count, 0)
end
