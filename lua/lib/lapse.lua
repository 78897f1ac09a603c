-- The sweep of lapsed leases: what a claim still held comes back by the policy, charged (I15). Where its holder said
-- which handlers run (begin.lua) only those are charged: the rest is not what it died of, and goes back as it came.
-- A claim larger than the limit is swept in parts: what is swept leaves its place in the list empty (lib/claimed),
-- the lease stays until the last part.
-- @include lib/holds
-- @include lib/let_go
-- @include lib/held
-- @include lib/give_back
-- @include lib/stranded

local function sweep_message(id, token, consumer, begun)
  local text = redis.call('HGET', states, id)
  local held = holds(token, text)
  local record = held and held_record(id) or redis.call('HGET', messages, id)
  if not record then
    return held and 1 or 0
  end
  local head = read_record(record)
  local state = parse_state(text, head.birth)
  if not held and not stranded(id, state, head) then
    return 0
  end
  state.token = '' -- its holder did not settle it, and is not to be told so when it repeats a call
  if begun and not begun:find('\n' .. id .. '\n', 1, true) then
    give_back(id, state, head, consumer)
  else
    judge(id, state, head, 'lapsed', { charge = true, consumer = consumer, error = lapse_error })
  end
  return held and 1 or 0
end

local function sweep(limit)
  local looked = 0
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, limit)) do
    if looked == limit then
      break
    end
    local claim = redis.call('HMGET', claims, token, token .. ':begun')
    local consumer, list = (claim[1] or ''):match('^([^\n]*)\n?(.*)$')
    local begun = claim[2] and '\n' .. claim[2] .. '\n'
    local swept, place = 0, 1 -- the place after what was looked at
    local first, last = list:find('[^\n]+')
    while first and looked < limit do
      looked, place = looked + 1, last + 1
      swept = swept + sweep_message(list:sub(first, last), token, consumer, begun)
      first, last = list:find('[^\n]+', place)
    end
    if not first then
      redis.call('HDEL', claims, token, token .. ':held', token .. ':begun')
      redis.call('ZREM', leases, token)
    else
      local empty = list:sub(1, place - 1):gsub('[^\n]+', '')
      redis.call('HSET', claims, token, consumer .. '\n' .. empty .. list:sub(place))
      if swept > 0 then -- minus nothing is "-0", which Redis does not count with
        let_go(token, swept)
      end
    end
  end
  return looked
end
